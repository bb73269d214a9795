//! Hosts that call, and hosts that tell who called: so a test sees which address a connection seems
//! to come from, behind whatever translates.

use lab::{Host, Process};

/// Tells everybody who calls, by TCP to one of these ports or by UDP to port 7, which address calls.
const TELLS: &str = r#"
import select, socket, sys
ends = []
for kind, ports in (socket.SOCK_STREAM, sys.argv[1:]), (socket.SOCK_DGRAM, [7]):
    for port in ports:
        end = socket.socket(socket.AF_INET6, kind)
        end.bind(("::", int(port)))
        kind == socket.SOCK_STREAM and end.listen(50)
        ends.append(end)
while True:
    for end in select.select(ends, [], [])[0]:
        if end.type == socket.SOCK_STREAM:
            call, who = end.accept()
            call.send(who[0].removeprefix("::ffff:").encode())
            call.close()
        else:
            _, who = end.recvfrom(100)
            end.sendto(who[0].removeprefix("::ffff:").encode(), who)
"#;

/// Calls, and prints what it was told: `tcp|udp address port from from-port`.
const CALL: &str = r#"
import socket, sys
kind, address, port, source, own = sys.argv[1:]
kind = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
end = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
end.settimeout(4)
try:
    end.bind((source, int(own)))
    end.connect((address, int(port)))
    kind == socket.SOCK_DGRAM and end.send(b"?")
    print(end.recv(100).decode())
except OSError:
    print("-")
"#;

/// Starts who tells, on these ports of TCP and on port 7 of UDP.
pub fn tells(host: &Host, ports: &[u16]) -> Process {
    let mut python = host.command("python3");
    python.args(["-c", TELLS]).args(ports.iter().map(u16::to_string));
    let process = host.spawn("tells", python).unwrap();
    ports.iter().for_each(|port| host.listens(*port).unwrap());
    process
}

/// Calls by `tcp` or `udp` from an address (empty: any) and port (0: any), and returns which address
/// is said to have called; `-`: nobody answers.
pub fn call(host: &Host, kind: &str, (from, own): (&str, u16), (to, port): (&str, u16)) -> String {
    let script = format!("python3 -c '{CALL}' {kind} {to} {port} '{from}' {own}");
    host.run(&script).unwrap().trim().to_owned()
}
