//! Downloads over loopback through a buffer that is much too small, and prints what was paused.
//!
//! Run it with `cargo run -p forebay-quic --example paused_downloads`.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use forebay_quic::{BackpressuredSocket, Config, Mode};
use forebay_units::Rate;
use quinn::{ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime};

type Error = Box<dyn std::error::Error + Send + Sync>;

const CONNECTIONS: usize = 4;
const BYTES: usize = 250_000;

fn main() -> Result<(), Error> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Error> {
    let (server_config, client_config) = identity()?;
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = udp.local_addr()?;
    let runtime = Arc::new(TokioRuntime);
    let config =
        Config { rate: Some(Rate::from_mbps(20)), packets: 8, mode: Mode::Zd, ..Config::default() };
    let socket = BackpressuredSocket::new(runtime.wrap_udp_socket(udp)?, &config)?;
    let server = Endpoint::new_with_abstract_socket(
        EndpointConfig::default(),
        Some(server_config),
        socket.clone(),
        runtime,
    )?;
    tokio::spawn(serve(server));

    let mut client = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    client.set_default_client_config(client_config);
    let mut downloads = Vec::new();
    for _ in 0..CONNECTIONS {
        let connection = client.connect(address, "localhost")?.await?;
        downloads.push(tokio::spawn(async move {
            let data = connection.accept_uni().await?.read_to_end(BYTES).await?;
            Ok::<usize, Error>(data.len())
        }));
    }
    for download in downloads {
        println!("{} bytes downloaded", download.await??);
    }
    let seen = socket.statistics();
    println!(
        "{} packets sent at 20 Mbit/s, {} dropped; connections were paused {} times",
        seen.sent, seen.dropped, seen.pauses
    );
    Ok(())
}

/// Sends a fixed number of bytes over each connection.
async fn serve(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            let mut stream = connection.open_uni().await?;
            stream.write_all(&[7; BYTES]).await?;
            stream.finish()?;
            connection.closed().await;
            Ok::<(), Error>(())
        });
    }
}

/// Returns the configurations of a server with a self-signed certificate and of a client for it.
fn identity() -> Result<(ServerConfig, ClientConfig), Error> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let server = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    Ok((server, ClientConfig::with_root_certificates(Arc::new(roots))?))
}
