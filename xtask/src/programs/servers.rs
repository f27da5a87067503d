//! memcached, unbound, nginx with thread pools, Apache with its worker model.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::programs::driver;
use crate::programs::work::{Load, Server, Work, free_port};
use crate::tools::{Outcome, capture};

/// memcached with as many workers as CPUs and more, under a client that checks every answer.
pub(crate) fn memcached(work: &Work) -> Outcome<Load<'_>> {
    let client = driver("memcached-client.c", &[])?;
    let port = free_port()?.to_string();
    let mut command = work.on_locks("/usr/bin/memcached");
    command.args(["-u", "root", "-l", "127.0.0.1", "-U", "0", "-m", "64", "-t", "4", "-p", &port]);
    let mut server = work.start(&mut command)?;
    server.wait_port(port.parse().unwrap_or(0))?;
    let (threads, seconds) = (work.scale.threads.to_string(), work.scale.seconds.to_string());
    let mut command = Command::new(client);
    command.args([&port, &threads, &seconds]);
    Ok(Load::on(server, command, |server| server.end("TERM")))
}

/// unbound, four threads that share caches behind rwlocks; every query must be answered with the
/// right code.
pub(crate) fn unbound(work: &Work) -> Outcome<Load<'_>> {
    const NAMES: u32 = 2000;
    let port = free_port()?;
    let mut zone = String::new();
    let mut queries = String::new();
    for name in 0..NAMES {
        zone += &format!("    local-data: \"host{name}.test. 60 IN A 10.0.{}.{}\"\n", name >> 8, name & 255);
        queries += &format!("host{name}.test A\n");
    }
    work.write("queries", queries)?;
    let folder = work.text_path("");
    work.write(
        "unbound.conf",
        format!(
            "server:\n    directory: \"{folder}\"\n    chroot: \"\"\n    username: \"\"\n    pidfile: \"\"\n    interface: 127.0.0.1\n    port: {port}\n    \
             num-threads: 4\n    do-daemonize: no\n    use-syslog: no\n    so-reuseport: no\n    local-zone: \"test.\" static\n{zone}\
             remote-control:\n    control-enable: no\n"
        ),
    )?;
    let mut command = work.on_locks("/usr/sbin/unbound");
    let mut server = work.start(command.args(["-d", "-c"]).arg(work.path("unbound.conf")))?;
    server.wait_port(port)?;
    let mut load = Command::new("/usr/bin/dnsperf");
    load.args(["-s", "127.0.0.1", "-p", &port.to_string(), "-d"]).arg(work.path("queries"));
    load.args(["-l", &work.scale.seconds.to_string(), "-c", &work.scale.threads.to_string(), "-T", "1"]);
    Ok(Load::on(server, load, |server| server.end("TERM")))
}

/// Files that a web server serves: small, and too big for one buffer.
fn files(work: &Work) -> Outcome {
    std::fs::create_dir_all(work.path("files")).map_err(|error| error.to_string())?;
    let text = |size: usize| (0..size).map(|at| b'a' + (at * 7 % 26) as u8).collect::<Vec<u8>>();
    work.write("files/small", text(600))?;
    work.write("files/big", text(300_000))?;
    // Servers that drop their privileges must get there.
    capture(Command::new("chmod").args(["-R", "a+rX"]).arg(work.path("."))).map(drop)
}

/// The load for a web server, which signal `ends`: every answer has to be there, right in length;
/// and one of each is compared byte by byte, before and after.
fn web_load<'w>(work: &'w Work, server: Server, port: u16, ends: &'static str) -> Outcome<Load<'w>> {
    let compare = move || -> Outcome {
        for name in ["small", "big"] {
            let expected =
                std::fs::read_to_string(work.path(&format!("files/{name}"))).map_err(|error| error.to_string())?;
            let found = fetch(port, name)?;
            if found != expected {
                return Err(format!("{name}: {} bytes came, not the {} of the file", found.len(), expected.len()));
            }
        }
        Ok(())
    };
    compare()?;
    let (seconds, clients) = (work.scale.seconds.div_ceil(2), work.scale.threads);
    let run = |name| {
        format!("/usr/bin/ab -q -k -n 10000000 -t {seconds} -c {clients} http://127.0.0.1:{port}/{name} </dev/null")
    };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{} && {}", run("small"), run("big"))]);
    Ok(Load::on(server, command, move |server| {
        compare()?;
        server.end(ends)
    }))
}

/// The body of an answer.
fn fetch(port: u16, name: &str) -> Outcome<String> {
    use std::io::{Read, Write};
    let go = || -> std::io::Result<String> {
        let mut stream = std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(stream, "GET /{name} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = go().map_err(|error| format!("{name}: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("{name}: an answer without end of head"))?;
    if head.starts_with("HTTP/1.1 200 ") { Ok(body.to_owned()) } else { Err(format!("{name}: {head}")) }
}

/// nginx with `aio threads`: files are read by a pool of threads behind a mutex and a condition
/// variable.
pub(crate) fn nginx(work: &Work) -> Outcome<Load<'_>> {
    files(work)?;
    let port = free_port()?;
    let folder = work.text_path("");
    work.write(
        "nginx.conf",
        format!(
            "worker_processes 2;\nuser root;\ndaemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nthread_pool default threads=8;\n\
             events {{ worker_connections 256; }}\nhttp {{\n  access_log off;\n  aio threads;\n  sendfile off;\n  output_buffers 2 32k;\n  \
             keepalive_requests 1000000;\n  client_body_temp_path {folder}/body;\n  proxy_temp_path {folder}/proxy;\n  fastcgi_temp_path {folder}/fastcgi;\n  \
             uwsgi_temp_path {folder}/uwsgi;\n  scgi_temp_path {folder}/scgi;\n  server {{ listen 127.0.0.1:{port}; root {folder}/files; }}\n}}\n"
        ),
    )?;
    let mut command = work.on_locks("/usr/sbin/nginx");
    let mut server =
        work.start(command.args(["-e", &work.text_path("error.log"), "-c", &work.text_path("nginx.conf")]))?;
    server.wait_port(port)?;
    web_load(work, server, port, "QUIT")
}

/// Apache with the worker model: a listener hands connections to threads through a queue of its
/// own, with mutexes and condition variables.
pub(crate) fn apache(work: &Work) -> Outcome<Load<'_>> {
    files(work)?;
    let port = free_port()?;
    let folder = work.text_path("");
    let modules = Path::new("/usr/lib/apache2/modules");
    let load = ["mpm_worker", "authz_core", "authz_host"]
        .map(|name| format!("LoadModule {name}_module {}\n", modules.join(format!("mod_{name}.so")).display()))
        .concat();
    work.write(
        "apache.conf",
        format!(
            "{load}ServerRoot {folder}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {folder}/pid\nErrorLog {folder}/error.log\nUser www-data\nGroup www-data\n\
             Mutex file:{folder}\nDocumentRoot {folder}/files\n<Directory {folder}/files>\n  Require all granted\n</Directory>\n\
             KeepAlive On\nMaxKeepAliveRequests 0\nStartServers 1\nServerLimit 1\nThreadsPerChild 32\nThreadLimit 32\nMaxRequestWorkers 32\n"
        ),
    )?;
    let mut command = work.on_locks("/usr/sbin/apache2");
    let mut server = work.start(command.args(["-D", "FOREGROUND", "-f", &work.text_path("apache.conf")]))?;
    server.wait_port(port)?;
    web_load(work, server, port, "TERM")
}
