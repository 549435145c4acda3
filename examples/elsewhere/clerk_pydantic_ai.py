import os

from pydantic_ai import Agent

agent = Agent(f"openai-chat:{os.environ['OPENAI_MODEL']}", instructions="You do sums.")


@agent.tool_plain
def add(numbers: list[int]) -> int:
    """Adds numbers."""
    return sum(numbers)


print(agent.run_sync("What is 19 + 23?").output)
