//! Two records of one run that say the same thing, or don't: limits against what was used, ends, answers, scores and totals.
//! Each test changes one field of a case.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::assert_says;
use super::evals::{changed, json_in, row, written};

/// What `board why` says about the only run of a directory.
fn why(dir: &TempDir) -> Value {
    json_in(
        dir.path(),
        &["why", row(dir.path())["path"].as_str().unwrap()],
    )
}

/// The headline, the contradictions as one text, and how the rule stands that is said to have ended the run.
fn told(dir: &TempDir) -> (String, String, String) {
    let why = why(dir);
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    (
        text(&why["headline"]),
        text(&why["contradictions"]),
        text(&why["rules"][0]["result"]),
    )
}

/// Asserts that the numbers deny the limit that is recorded as the end.
#[track_caller]
fn assert_denied(dir: &TempDir, numbers: &str) {
    let (headline, contradictions, result) = told(dir);
    assert_says(&headline, &["but the trace records", numbers]);
    assert_says(
        &contradictions,
        &["implies that a limit was reached", numbers],
    );
    assert_eq!(
        (&*result, &row(dir.path())["certainty"]),
        ("unknown", &json!("inferred"))
    );
}

mod limits {
    use super::*;

    fn inspect(kind: &str, limit: f64) -> TempDir {
        changed("in_limit_one_place/log.json", |log| {
            let sample = &mut log["samples"][0];
            sample["limit"] =
                json!({"type": kind, "limit": limit, "reason": format!("Exceeded {kind} limit")});
            let events = sample["events"].as_array_mut().unwrap();
            events.retain(|event| event["event"] != "sample_limit");
        })
    }

    #[test]
    fn a_limit_without_a_measure_takes_the_one_from_the_sample() {
        assert_denied(&inspect("token", 900.0), "280 of 900 tokens");
        assert_denied(&inspect("time", 600.0), "9.0 s");
        let (headline, contradictions, result) = told(&inspect("time", 5.0));
        assert_says(&headline, &["Time limit reached", "9.0 s, limit 5.0 s"]);
        assert_eq!((&*contradictions, &*result), ("[]", "fired"));
    }

    #[test]
    fn several_limits_of_which_none_holds_are_a_contradiction() {
        let mini = changed("ms_both_limits/run.traj.json", |run| {
            let agent = &mut run["info"]["config"]["agent"];
            (agent["step_limit"], agent["cost_limit"]) = (json!(50), json!(3.0));
        });
        assert_denied(&mini, "1 of 50 steps, $0.03 of $3.00");
        let simulation = |word: &str| {
            changed("t2_cost/results.json", |results| {
                results["simulations"][0]["agent_cost"] = Value::Null;
                results["simulations"][0]["termination_reason"] = json!(word);
                results["info"]["max_steps"] = json!(200);
            })
        };
        assert_denied(
            &simulation("max_steps"),
            "at most 11 of 200 simulator steps",
        );
        assert_denied(&simulation("too_many_errors"), "of 10 errors");
    }

    #[test]
    fn a_lower_bound_of_a_time_shows_that_a_limit_was_reached_and_not_that_it_was_not() {
        let run = |seconds: f64| {
            changed("ms_both_limits/run.traj.json", |run| {
                run["info"]["exit_status"] = json!("TimeExceeded");
                run["messages"].as_array_mut().unwrap().last_mut().unwrap()["extra"]["exit_status"] =
                    json!("TimeExceeded");
                run["info"]["config"]["agent"]["wall_time_limit_seconds"] = json!(seconds);
            })
        };
        let (headline, contradictions, _) = told(&run(0.2));
        assert_says(&headline, &["at least 250 ms, limit 200 ms"]);
        assert_eq!(contradictions, "[]");
        assert_eq!(told(&run(600.0)).1, "[]");
    }

    #[test]
    fn what_equals_a_limit_of_swe_agent_does_not_reach_it() {
        let run = |calls: u64| {
            changed("sw_exit_exit_total_execution_time/run.traj", |run| {
                run["info"]["exit_status"] = json!("exit_cost");
                run["info"]["model_stats"]["api_calls"] = json!(calls);
                let config = run["replay_config"].as_str().unwrap();
                let config = config.replace(
                    "\"per_instance_cost_limit\": 0.05",
                    "\"per_instance_cost_limit\": 3.0",
                );
                let config = config.replace(
                    "\"per_instance_call_limit\": 40",
                    "\"per_instance_call_limit\": 4",
                );
                run["replay_config"] = json!(config);
            })
        };
        assert_denied(&run(4), "4 of 4 model calls");
        assert_says(
            &told(&run(5)).0,
            &["Model call limit reached", "5 model calls, limit 4"],
        );
    }

    #[test]
    fn the_iterations_of_a_conversation_are_its_replies_and_never_its_limit() {
        let source = super::super::cases().join("oh_stuck");
        let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
        let state = read(&source.join("base_state.json"));
        let mut state: Value = serde_json::from_str(&state).unwrap();
        state["execution_status"] = json!("error");
        state["max_iterations"] = json!(500);
        let mut files = vec![("c/base_state.json".to_owned(), state.to_string())];
        for entry in std::fs::read_dir(source.join("events")).unwrap() {
            let path = entry.unwrap().path();
            let mut event: Value = serde_json::from_str(&read(&path)).unwrap();
            if event["kind"] == "ConversationErrorEvent" {
                event["detail"] = json!("Agent reached maximum iterations limit.");
            }
            let name = path.file_name().unwrap().to_str().unwrap();
            files.push((format!("c/events/{name}"), event.to_string()));
        }
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, text)| (&**name, &**text))
            .collect();
        assert_denied(&written(&files), "3 of 500 iterations");
    }
}

mod ends {
    use super::*;

    #[test]
    fn two_records_of_an_end_with_different_outcomes_leave_it_unknown() {
        let run = changed("ms_both_limits/run.traj.json", |run| {
            run["messages"].as_array_mut().unwrap().last_mut().unwrap()["extra"]["exit_status"] =
                json!("Submitted");
        });
        let (headline, contradictions, _) = told(&run);
        assert_says(&headline, &["The records disagree on how the run ended"]);
        assert_says(
            &contradictions,
            &["the exit message records Submitted, but info records LimitsExceeded"],
        );
        let row = row(run.path());
        assert_eq!(
            (&row["outcome"], &row["certainty"]),
            (&json!("unknown"), &json!("unknown"))
        );
    }

    #[test]
    fn an_error_beside_a_limit_is_said() {
        let run = changed("in_limit_one_place/log.json", |log| {
            log["samples"][0]["error"] = json!({"message": "RuntimeError: boom", "traceback": ""});
        });
        assert_says(
            &told(&run).1,
            &["sample.error records error, but sample.limit records token"],
        );
    }

    #[test]
    fn an_interrupt_is_a_cancellation_whoever_records_it() {
        let run = changed("in_limit_one_place/log.json", |log| {
            let sample = &mut log["samples"][0];
            sample["limit"] = Value::Null;
            sample["error"] = json!({"message": "KeyboardInterrupt()", "traceback": ""});
        });
        assert_eq!(row(run.path())["outcome"], "cancelled");
    }
}

mod totals {
    use super::*;

    #[test]
    fn two_costs_of_a_sample_disagree() {
        let run = changed("in_limit_one_place/log.json", |log| {
            let sample = &mut log["samples"][0];
            sample["model_usage"]["mockllm/model"]["total_cost"] = json!(9.5);
            for event in sample["events"].as_array_mut().unwrap() {
                if event["event"] == "model" {
                    event["output"]["usage"]["total_cost"] = json!(0.02);
                }
            }
        });
        assert_says(
            &told(&run).1,
            &["disagree on the cost", "$9.50 (", "the sum of the replies"],
        );
        assert_eq!(row(run.path())["cost_usd"], Value::Null);
    }

    #[test]
    fn a_small_cost_is_compared_by_its_own_size() {
        let run = |cost: f64| {
            changed("t2_cost/results.json", |results| {
                results["simulations"][0]["agent_cost"] = json!(cost);
            })
        };
        assert_eq!(row(run(0.003).path())["contradictions"], 0);
        assert_says(&told(&run(0.006)).1, &["disagree on the cost", "$0.0060"]);
        assert_says(&told(&run(0.0)).1, &["disagree on the cost"]);
    }

    #[test]
    fn a_time_that_no_clock_shows_is_said() {
        let longer = changed("t2_cost/results.json", |results| {
            results["simulations"][0]["duration"] = json!(900.0)
        });
        assert_says(
            &told(&longer).1,
            &["disagree on the time", "15 min", "13.0 s"],
        );
        let negative = changed("in_limit_one_place/log.json", |log| {
            log["samples"][0]["total_time"] = json!(-4.0)
        });
        let row = row(negative.path());
        assert!(row["issues"].as_u64().unwrap() > 0, "{row}");
    }

    #[test]
    fn a_full_reward_with_a_part_of_zero_is_a_contradiction() {
        let run = changed("t2_cost/results.json", |results| {
            results["simulations"][0]["agent_cost"] = json!(0.003);
            results["simulations"][0]["reward_info"]["reward_breakdown"]["DB"] = json!(0.0);
        });
        assert_says(
            &told(&run).1,
            &["The reward is 1, but the product of its parts (reward_breakdown) is 0"],
        );
    }
}

mod harbor {
    use super::*;

    fn trial(change: impl FnOnce(&mut Value), agent: (&str, &str)) -> TempDir {
        let case = super::super::cases().join("90-harbor-claude-txt/job/cit__abc");
        let read = |name: &str| std::fs::read_to_string(case.join(name)).unwrap();
        let mut result: Value = serde_json::from_str(&read("result.json")).unwrap();
        change(&mut result);
        let (name, text) = agent;
        let text = if text.is_empty() {
            read(name)
        } else {
            text.to_owned()
        };
        written(&[
            ("t/config.json", &read("config.json")),
            ("t/result.json", &result.to_string()),
            (&format!("t/{name}"), &text),
        ])
    }

    #[test]
    fn a_trial_whose_agent_ran_and_left_nothing_readable_has_an_unknown_number_of_steps() {
        let run = trial(|_| {}, ("agent/aider.txt", "aider v1\n"));
        let row = row(run.path());
        for field in ["steps", "tool_calls", "tool_errors"] {
            assert_eq!(row[field], Value::Null, "{field}: {row}");
        }
        let none = trial(
            |result| result["agent_execution"] = Value::Null,
            ("agent/aider.txt", "aider v1\n"),
        );
        assert_eq!(self::row(none.path())["steps"], 0);
    }

    #[test]
    fn the_trajectory_of_mini_swe_agent_holds_the_steps_of_its_trial() {
        let own = super::super::cases().join("ms_both_limits/run.traj.json");
        let text = std::fs::read_to_string(own).unwrap();
        let run = trial(|_| {}, ("agent/mini-swe-agent.trajectory.json", &text));
        let row = row(run.path());
        assert_eq!(
            (&row["steps"], &row["tool_calls"], &row["last_score"]),
            (&json!(1), &json!(1), &json!(1.0))
        );
    }

    #[test]
    fn an_exception_of_the_trial_against_a_good_end_of_its_agent_is_said() {
        let exception = json!({"exception_type": "AgentTimeoutError", "exception_message": "timed out after 420.0 seconds"});
        let run = trial(
            |result| result["exception_info"] = exception,
            ("agent/claude-code.txt", ""),
        );
        assert_says(
            &told(&run).1,
            &["result.json records AgentTimeoutError, but the agent's output records success"],
        );
        assert_eq!(row(run.path())["outcome"], "unknown");
    }

    #[test]
    fn the_limit_of_a_timeout_is_the_one_of_the_configuration() {
        let run = trial(
            |result| {
                result["exception_info"] = json!({"exception_type": "AgentTimeoutError", "exception_message": "Agent execution timed out"});
                result["config"]["agent"]["override_timeout_sec"] = json!(900.0);
            },
            ("agent/aider.txt", "aider v1\n"),
        );
        assert_denied(&run, "7 min, limit 15 min");
    }

    #[test]
    fn a_cost_that_the_output_of_the_agent_denies_is_unknown() {
        let run = trial(
            |result| result["agent_result"]["cost_usd"] = json!(9.0),
            ("agent/claude-code.txt", ""),
        );
        assert_says(&told(&run).1, &["disagree on the cost", "$9.00"]);
    }
}
