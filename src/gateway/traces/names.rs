//! OpenTelemetry's names for attributes and operations. The GenAI names are still experimental, so all of them are in this file.

/// The version of the conventions.
pub const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

pub const SERVICE: &str = "service.name";
pub const SERVICE_VERSION: &str = "service.version";
pub const SERVICE_INSTANCE: &str = "service.instance.id";

pub const METHOD: &str = "http.request.method";
pub const ROUTE: &str = "http.route";
pub const STATUS: &str = "http.response.status_code";
pub const ERROR: &str = "error.type";

pub const OPERATION: &str = "gen_ai.operation.name";
pub const PROVIDER: &str = "gen_ai.provider.name";
pub const AGENT: &str = "gen_ai.agent.name";
pub const CONVERSATION: &str = "gen_ai.conversation.id";
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub const TOOL: &str = "gen_ai.tool.name";
pub const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub const TOOL_TYPE: &str = "gen_ai.tool.type";

/// The operations.
pub const INVOKE_AGENT: &str = "invoke_agent";
pub const CHAT: &str = "chat";
pub const EXECUTE_TOOL: &str = "execute_tool";

// ReedClaw's own.
pub const TENANT: &str = "reedclaw.tenant";
pub const PROJECT: &str = "reedclaw.project";
pub const REQUEST: &str = "reedclaw.request.id";
pub const RUN: &str = "reedclaw.run.id";
pub const STEP: &str = "reedclaw.step.id";
pub const ORIGIN: &str = "reedclaw.run.origin";
pub const STATE: &str = "reedclaw.run.state";
pub const RECEIPT: &str = "reedclaw.receipt.id";

/// The provider, by the kind of a model in the config.
pub fn provider(kind: &str) -> &str {
    match kind {
        "openai-compatible" | "openai-responses" => "openai",
        "gemini" => "gcp.gemini",
        other => other,
    }
}
