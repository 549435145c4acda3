import os

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled

set_default_openai_api("chat_completions")
set_tracing_disabled(True)


@function_tool
def add(numbers: list[int]) -> int:
    """Adds numbers."""
    return sum(numbers)


agent = Agent("clerk", "You do sums.", model=os.environ["OPENAI_MODEL"], tools=[add])
print(Runner.run_sync(agent, "What is 19 + 23?").final_output)
