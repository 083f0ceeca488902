//! A TLS server of the test's own, with throw-away certificates.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::{
    ConfigBuilder, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};
use tempfile::TempDir;

use crate::odd_server;

/// One connection as the server sees it.
pub type Stream = StreamOwned<ServerConnection, TcpStream>;

/// An authority whose certificate lies in a file.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

impl Authority {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, dir }
    }

    /// Its certificate, a PEM file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// The settings of a server whose certificate is the authority's own, as most tools make one.
    #[must_use]
    pub fn itself(&self) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let key = PrivateKeyDer::try_from(self.issuer.key().serialize_der()).unwrap();
        builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.issuer.der().clone()], key)
            .unwrap()
    }

    /// PEM files of a client's certificate and key.
    #[must_use]
    pub fn client(&self) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.leaf(&["client"], ExtendedKeyUsagePurpose::ClientAuth);
        let paths = (self.dir.path().join("client.pem"), self.dir.path().join("client.key"));
        std::fs::write(&paths.0, certificate.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }

    fn leaf(
        &self,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> (rcgen::Certificate, KeyPair) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages.push(usage);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A server's settings: a certificate for these names, these versions; `demand` wants a client
    /// certificate of this authority.
    #[must_use]
    pub fn server(
        &self,
        names: &[&str],
        versions: &[&'static SupportedProtocolVersion],
        demand: bool,
    ) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(versions).unwrap();
        let builder: ConfigBuilder<ServerConfig, WantsServerCert> = if demand {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let (certificate, key) = self.leaf(names, ExtendedKeyUsagePurpose::ServerAuth);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// Both versions that are spoken.
pub static VERSIONS: [&SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

/// A server that speaks TLS on so many connections; see [`odd_server`].
#[must_use]
pub fn tls_server(
    config: ServerConfig,
    connections: usize,
    serve: impl Fn(Stream) + Send + Sync + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let config = Arc::new(config);
    odd_server(connections, move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        serve(StreamOwned::new(session, stream));
    })
}
