//! Programs read and change the router by HTTPS, with curl as they would: every example of the
//! page, who may do what, what is refused and why, what happens as it happens, and ten thousand
//! routes and rules at once. Who only holds connections keeps nobody from anything.

use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use lab::{Lab, Router, wait_for};
use serde_json::Value;

use crate::network::turn;

const PAGE: &str = include_str!("../docs/api.md");
const CONFIG: &str = "# the house's router\n\n[[port]]\nname = \"p0\"\n[tables]\nipv4 = 65536\nipv6 = 1024\nnext_hops = 1024\n\
                      # Not too many.\n[police]\nicmp = { rate = 1, burst = 10 }   # a few\n\
                      [filter]\nsets.bogons = [\"198.18.0.0/15\"]\nforward.rules = \"\"\"\ndrop from @bogons name bogons\n\"\"\"\n[flow]\n\
                      [api]\nlisten = \"127.0.0.1:8443\"\ntokens = \"tokens\"\n";
/// curl as the page's examples have it, and what they begin with.
const CURL: &str = "set -e -o pipefail\nAPI=https://127.0.0.1:8443/v1\n\
                    curl() { command curl --cacert state/api/certificate.pem \"$@\"; }\n";

struct House {
    router: Router,
    tokens: [String; 3],
    _lab: Lab,
    _turn: crate::network::Turn,
}

impl House {
    fn new() -> Option<House> {
        let turn = turn();
        let lab = Lab::new("api").unwrap();
        let host = lab.router("router").unwrap();
        host.run("ip link add p0 type veth peer name p1; ip link set p0 up; ip link set p1 up").unwrap();
        let mut router = Router::stopped(&host, CONFIG).unwrap();
        if !router.is_bifrost() {
            return None;
        }
        let file = host.folder().join("tokens");
        let token = |role: &str| {
            let made = router.ask(&format!("token {role} {role} --file {}", file.display())).unwrap();
            made.trim().to_owned()
        };
        let tokens = ["viewer", "operator", "admin"].map(token);
        assert!(tokens.iter().all(|token| !fs::read_to_string(&file).unwrap().contains(token)));
        router.restart().unwrap();
        wait_for("it to listen", Duration::from_secs(10), || {
            let shown = router.show("api").map_err(|error| error.to_string())?;
            if shown["listen"][0]["listens"] == true { Ok(()) } else { Err(shown.to_string()) }
        })
        .unwrap();
        Some(House { router, tokens, _lab: lab, _turn: turn })
    }

    fn run(&self, token: usize, script: &str) -> Result<String, String> {
        let folder = self.router.host().folder().display();
        let begin = format!("cd {folder}\nTOKEN={}\n{CURL}", self.tokens[token]);
        let file = self.router.host().folder().join("script");
        fs::write(&file, format!("{begin}{script}")).unwrap();
        self.router.host().run(&format!("bash {}", file.display())).map_err(|error| error.to_string())
    }

    /// A request of one of the tokens: its status, and what came.
    fn asks(&self, token: usize, words: &str) -> (u16, Value) {
        let script = format!("curl -s -w '\\n%{{http_code}}' -H \"Authorization: Bearer $TOKEN\" {words}\n");
        let said = self.run(token, &script).unwrap();
        let (body, status) = said.trim().rsplit_once('\n').unwrap_or(("", said.trim()));
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::String(body.to_owned())))
    }

    fn file(&self) -> String {
        fs::read_to_string(self.router.host().folder().join("router.toml")).unwrap()
    }

    /// Sends a file to be committed; how long that took.
    fn sends(&self, media: &str, body: &str) -> Duration {
        fs::write(self.router.host().folder().join("body"), body).unwrap();
        let began = Instant::now();
        let (status, said) =
            self.asks(2, &format!("-H 'Content-Type: {media}' --data-binary @body $API/commit"));
        assert_eq!(status, 200, "{said}");
        began.elapsed()
    }
}

#[test]
fn as_the_page_says() {
    let Some(house) = House::new() else { return };
    // Every example, as it stands there.
    let blocks = PAGE.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    for block in blocks {
        let said = house.run(2, &block.replace("curl -s", "curl --fail-with-body -sS")).unwrap();
        assert!(!said.contains("\"type\":\"urn:bifrost:problem") && !said.is_empty(), "{block}\n{said}");
    }
    let file = house.file();
    let police = "# Not too many.\n[police]\nicmp = { rate = 600, burst = 50 }   # a few\n";
    assert!(file.starts_with("# the house's router\n\n[[port]]") && file.contains(police), "{file}");
    let (_, history) = house.asks(0, "$API/history");
    let patched = history["revisions"].as_array().unwrap().iter().find(|one| one["comment"] == "less ICMP");
    assert_eq!(
        (&patched.unwrap()["user"], &patched.unwrap()["from"]),
        (&"admin".into(), &"127.0.0.1".into())
    );

    // What can be shown is what the command line shows.
    let (_, subjects) = house.asks(0, "$API/show");
    for subject in subjects.as_array().unwrap() {
        let name = subject["name"].as_str().unwrap();
        let (status, said) = house.asks(0, &format!("$API/show/{name}"));
        assert_eq!(status, 200, "{name}: {said}");
    }
    let shown = house.router.show("api").unwrap();
    let fingerprint =
        house.run(0, "openssl x509 -noout -fingerprint -sha256 -in state/api/certificate.pem").unwrap();
    assert!(fingerprint.contains(shown["fingerprint"].as_str().unwrap()), "{fingerprint} {shown}");
    assert_eq!(shown["listen"][0]["listens"], true);

    who_may_do_what(&house);
    what_is_wrong_is_told(&house);
    what_happens_is_told(&house);
    ten_thousand_at_once(&house);
    who_holds_connections_holds_up_nobody(&house);
    a_new_token_is_known_after_a_reload(&house);
}

fn who_may_do_what(house: &House) {
    let patch = "-H 'Content-Type: application/json' -d '{\"police\":{\"icmp\":{\"rate\":9}}}'";
    for (token, words, status) in [
        (0, "$API/config", 200),
        (0, "-X DELETE $API/flows", 403),
        (1, "-X DELETE $API/flows", 200),
        (0, &format!("{patch} $API/commit"), 403),
        (1, &format!("{patch} $API/commit?check"), 403),
        (2, &format!("{patch} $API/commit"), 200),
    ] {
        assert_eq!(house.asks(token, words).0, status, "{token} {words}");
    }
    let before = Instant::now();
    let said = house.run(0, "curl -s -H 'Authorization: Bearer bifrost_0' $API/config").unwrap();
    assert!(said.contains("problem:token") && before.elapsed() >= Duration::from_secs(1), "{said}");
    assert!(house.run(0, "curl -s $API/config").unwrap().contains("Authorization: Bearer"));
    assert_eq!(house.router.show("api").unwrap()["refused_tokens"], 1);
}

fn what_is_wrong_is_told(house: &House) {
    let file = house.file();
    fs::write(house.router.host().folder().join("large"), vec![b'#'; (16 << 20) + 1]).unwrap();
    let json = "-H 'Content-Type: application/json'";
    for (words, status, message) in [
        (
            format!("{json} -d '{{\"police\":{{\"icmp\":{{\"rate\":\"much\"}}}}}}' $API/commit"),
            422,
            "\"expected\"",
        ),
        (format!("{json} -d '{{\"polcie\":1}}' $API/commit"), 422, "police"),
        (format!("{json} -d '{{' $API/commit"), 400, "no JSON"),
        (format!("{json} -d '{{}}' $API/commit?chekc"), 400, "check"),
        ("-H 'Content-Type: text/plain' -d 'set police icpm rate 5' $API/commit".into(), 422, "line 1"),
        ("-H 'Content-Type: image/png' -d x $API/commit".into(), 415, "application/toml"),
        ("-H 'If-Match: \"0\"' -X DELETE $API/config/police".into(), 412, "If-Match"),
        ("-X DELETE $API/config/route/10.0.0.0%2F8".into(), 404, "no route"),
        ("$API/cofnig".into(), 404, "/v1/config"),
        ("-X PATCH $API/config".into(), 405, "PATCH"),
        ("$API/show/intrefaces".into(), 404, "interfaces"),
        ("-X POST $API/confirm".into(), 409, "nothing waits"),
        ("-X POST $API/restart/tea".into(), 409, "what can restart: frr"),
        ("\"$API/compare?from=99\"".into(), 404, "99"),
        ("-H 'Content-Type: application/toml' --data-binary @large $API/commit".into(), 413, "16777216"),
    ] {
        let (said, body) = house.asks(2, &words);
        assert!(said == status && body.to_string().contains(message), "{words}: {said} {body}");
        assert!(body["cure"].as_str().is_some_and(|cure| !cure.is_empty()), "{words}: {body}");
    }
    // What waits to be confirmed comes first, and a lock holds others off.
    let lines = |line: &str, query: &str| {
        format!("-H 'Content-Type: text/plain' -d '{line}' \"$API/commit?{query}\"")
    };
    assert_eq!(house.asks(2, &lines("set police icmp rate 11", "confirmed=5")).0, 200);
    let (status, said) = house.asks(2, &lines("set police icmp rate 12", ""));
    assert!(status == 409 && said["cure"].as_str().unwrap().contains("/v1/confirm"), "{said}");
    assert_eq!(house.asks(2, "-X POST $API/rollback").0, 200);
    assert_eq!(house.file(), file);
    let mut socket = std::os::unix::net::UnixStream::connect(house.router.socket()).unwrap();
    let mut lock = |wish: &str| {
        socket.write_all(format!("{{\"ask\":\"lock\",\"wish\":\"{wish}\"}}\n").as_bytes()).unwrap();
        let mut reply = [0; 1];
        socket.read_exact(&mut reply).unwrap();
    };
    lock("hold");
    let (status, said) = house.asks(2, &lines("set police icmp rate 12", ""));
    assert!(status == 423 && said["detail"].as_str().unwrap().contains("locked"), "{status} {said}");
    lock("release");
}

fn what_happens_is_told(house: &House) {
    let script = "curl -s -N --max-time 5 -H \"Authorization: Bearer $TOKEN\" $API/events > events & \n\
                  for i in $(seq 50); do grep -q begun events && break; sleep 0.1; done\n\
                  ip link set p1 down\n\
                  curl -s -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: text/plain' \
                  -d 'set police icmp rate 13' \"$API/commit?comment=told\"\n\
                  for i in $(seq 40); do grep -q '^event: commit' events && grep -q '^event: port' events && break; sleep 0.1; done\n\
                  kill %1; ip link set p1 up; cat events";
    let said = house.run(2, script).unwrap();
    for words in
        ["event: begun\n", "event: port\n", "\"name\":\"p0\"", "event: commit\n", "\"comment\":\"told\""]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

fn ten_thousand_at_once(house: &House) {
    let address = |n: usize| format!("10.{}.{}.0/24", n / 250, n % 250);
    let routes: Vec<Value> =
        (0..10_000).map(|n| serde_json::json!({ "to": address(n), "kind": "blackhole" })).collect();
    let took =
        house.sends("application/merge-patch+json", &serde_json::json!({ "route": routes }).to_string());
    eprintln!("10,000 routes in a merge patch: {took:?}");
    let count = house.router.host().run("ip route show type blackhole | wc -l").unwrap();
    assert_eq!(count.trim(), "10000");
    let lines: String = (0..10_000).map(|n| format!("set route {} kind unreachable\n", address(n))).collect();
    let again = house.sends("text/plain", &lines);
    eprintln!("10,000 routes in lines: {again:?}");
    let gone = house.sends("text/plain", "delete route\n");
    eprintln!("10,000 routes removed: {gone:?}");
    let rules: String =
        (0..10_000).map(|n| format!("drop tcp to {} port {} name r{n}\n", address(n), 1 + n)).collect();
    let patch = serde_json::json!({ "filter": { "forward": { "rules": rules } } });
    let ruled = house.sends("application/merge-patch+json", &patch.to_string());
    eprintln!("10,000 rules: {ruled:?}");
    let (status, _) = house.asks(2, "-X DELETE $API/config/filter/forward/rules/r77");
    assert_eq!(status, 200);
    assert_eq!(house.asks(0, "$API/config/filter/forward/rules/r77").0, 404);
    let (_, rule) = house.asks(0, "$API/config/filter/forward/rules/r78");
    assert_eq!(rule, "drop tcp to 10.0.78.0/24 port 79 name r78");
    // The machines of tests are slower than routers are, and others work on them.
    let most = Duration::from_secs(20);
    assert!([took, again, gone, ruled].iter().all(|took| *took < most));
    house.sends("text/plain", "delete filter forward\n");
}

fn who_holds_connections_holds_up_nobody(house: &House) {
    // One address has its share, and no more; what it has is let go in time.
    let held = house.router.host().inside(|| {
        let mut held: Vec<std::net::TcpStream> = Vec::new();
        for n in 0..40 {
            let mut stream = std::net::TcpStream::connect("127.0.0.1:8443").unwrap();
            // Some begin to speak, and some say what is no TLS.
            if n % 2 == 0 {
                let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
            }
            held.push(stream);
        }
        held
    });
    let held = held.unwrap().join().unwrap();
    wait_for("connections to be refused", Duration::from_secs(5), || {
        let shown = house.router.show("api").map_err(|error| error.to_string())?;
        match shown["refused_connections"].as_u64() {
            Some(1..) if shown["connections"].as_u64() <= Some(16) => Ok(()),
            _ => Err(shown.to_string()),
        }
    })
    .unwrap();
    drop(held);
    wait_for("a free connection", Duration::from_secs(5), || {
        match house.run(0, "curl -sf -H \"Authorization: Bearer $TOKEN\" $API/lock") {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    })
    .unwrap();
}

fn a_new_token_is_known_after_a_reload(house: &House) {
    let file = house.router.host().folder().join("tokens");
    let made = house.router.ask(&format!("token late viewer --file {}", file.display())).unwrap();
    let asks = format!(
        "curl -s -o /dev/null -w '%{{http_code}}' -H 'Authorization: Bearer {}' $API/lock",
        made.trim()
    );
    assert_eq!(house.run(0, &asks).unwrap().trim(), "401");
    let said = house.router.ask("reload --dry-run").unwrap();
    assert!(said.contains("[api]: 4 tokens are known"), "{said}");
    house.router.ask("reload").unwrap();
    assert_eq!(house.run(0, &asks).unwrap().trim(), "200");
    // Without the section nobody is served.
    house.sends("text/plain", "delete api\n");
    let gone = house.run(0, "curl -s $API/config || echo gone").unwrap();
    assert_eq!(gone.trim(), "gone");
}
