use rig::{prelude::*, providers::openai::OpenAI, rig_tool, tool::ToolExecutionError};

#[rig_tool(description = "Adds numbers.")]
fn add(numbers: Vec<i64>) -> Result<i64, ToolExecutionError> {
    Ok(numbers.iter().sum())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = OpenAI::from_env()?.chat(std::env::var("OPENAI_MODEL")?);
    let agent = AgentBuilder::new(model)
        .preamble("You do sums.")
        .tool(Add)
        .default_max_turns(5)
        .build();
    println!("{}", agent.prompt("What is 19 + 23?").await?.output());
    Ok(())
}
