//! The `board` command.
fn main() {
    let root = std::env::args().nth(1).unwrap();
    let lib = trace_board::live::Library::open(vec![root.into()], Default::default());
    trace_board::web::serve(lib, &trace_board::web::Address { host: "127.0.0.1".into(), port: 8799 }, |a| {
        println!("board: listening on http://{a}/");
        Ok(())
    })
    .unwrap();
}
