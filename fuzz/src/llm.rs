//! Checks agent files and model API responses: errors give their position, replies are complete,
//! and no response leaks the API key.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::Map;
use trace_board::engine::{ChatModel, Message, Request};
use trace_board::llm::{AgentFile, Client, Endpoint, Retry, Secret, Timeouts};

/// An agent's TOML file. Inputs that may reference other files are skipped, because those would be
/// the user's own.
pub fn agent_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if text.contains("system_file") || text.contains("structured_output") || text.contains('\\') {
        return;
    }
    let path = Path::new("agent.toml");
    match AgentFile::parse(text, path) {
        Ok(file) => {
            assert!(!file.name().is_empty() || text.contains("name"));
            assert!(
                file.objective()
                    .is_none_or(|objective| !objective.trim().is_empty())
            );
            let again = AgentFile::parse(text, path).expect("it was read before");
            assert_eq!(format!("{file:?}"), format!("{again:?}"));
        }
        Err(error) => assert!(error.to_string().contains("agent.toml"), "{error}"),
    }
}

const KEY: &str = "sk-fuzzed-0123456789";

/// A server response. Bits of the first byte select streaming and truncation.
pub fn chat_wire(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    // The server leaks the key wherever the input contains `@`.
    let body = String::from_utf8_lossy(body).replace('@', KEY).into_bytes();
    let (server, runtime, client) = surroundings();
    *server.answer.lock().expect("nobody panicked") = Answer {
        stream: kind & 1 == 1,
        cut: kind & 2 == 2,
        body,
    };
    let heard = Mutex::new(String::new());
    let request = Request::new(vec![Message::user("hello")]);
    let tell = |text: &str| heard.lock().expect("nobody panicked").push_str(text);
    let replied = runtime
        .lock()
        .expect("nobody panicked")
        .block_on(client.complete(&request, &tell));
    let heard = heard.into_inner().expect("nobody panicked");
    assert!(!heard.contains(KEY), "{heard}");
    match replied {
        Ok(reply) => {
            assert_eq!(reply.text, heard, "what is heard is what is said");
            assert!(!reply.text.is_empty() || !reply.tool_calls.is_empty());
            assert!(
                reply.tool_calls.iter().all(|call| !call.id.is_empty()),
                "every call has an id"
            );
            assert!(!format!("{reply:?}").contains(KEY), "{reply:?}");
        }
        Err(error) => {
            let said = error.to_string();
            assert!(
                !said.contains(KEY) && !said.contains('\n') && said.len() < 2000,
                "{said}"
            );
        }
    }
}

struct Answer {
    stream: bool,
    cut: bool,
    body: Vec<u8>,
}

/// A local server that returns the configured answer.
struct Server {
    address: SocketAddr,
    answer: Mutex<Answer>,
}

type Surroundings = (Arc<Server>, Mutex<tokio::runtime::Runtime>, Client);

fn surroundings() -> &'static Surroundings {
    static ALL: OnceLock<Surroundings> = OnceLock::new();
    ALL.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let server = Arc::new(Server {
            address,
            answer: Mutex::new(Answer {
                stream: false,
                cut: false,
                body: vec![],
            }),
        });
        let serving = Arc::clone(&server);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = Arc::clone(&serving);
                // The client reuses one connection, and opens another after a truncated response.
                std::thread::spawn(move || server.serve(stream));
            }
        });
        let retry = Retry {
            retries: 0,
            ..Retry::default()
        };
        let short = Duration::from_secs(2);
        let timeouts = Timeouts {
            connect: short,
            first_byte: short,
            whole: short,
        };
        let endpoint = Endpoint {
            base_url: format!("http://{}/v1", server.address),
            model: "tiny".to_owned(),
            key: Secret::new(Some(KEY)),
            stream: true,
            settings: Map::new(),
            context_window: None,
            send_fields: None,
            retry,
            timeouts,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        (
            server,
            Mutex::new(runtime),
            Client::new(endpoint).expect("the address is one"),
        )
    })
}

impl Server {
    fn serve(&self, stream: TcpStream) {
        let Ok(mut out) = stream.try_clone() else {
            return;
        };
        let mut reader = BufReader::new(stream);
        // Ends when the client disconnects.
        while let Some(()) = self.answer_one(&mut reader, &mut out) {}
    }

    fn answer_one(&self, reader: &mut BufReader<TcpStream>, out: &mut TcpStream) -> Option<()> {
        let mut len = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                len = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        reader.take(len).read_to_end(&mut Vec::new()).ok()?;
        let answer = self.answer.lock().ok()?;
        let kind = if answer.stream {
            "text/event-stream"
        } else {
            "application/json"
        };
        let missing = usize::from(answer.cut);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            answer.body.len() + missing
        );
        out.write_all(&[head.as_bytes(), &answer.body].concat())
            .ok()?;
        (!answer.cut).then_some(())
    }
}
