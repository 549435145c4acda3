//! Cases of evaluation logs and telemetry: Inspect, tau2, OpenHands, SWE-agent, mini-SWE-agent, Harbor, OpenTelemetry.
