//! TLS over our own sockets: rustls turns bytes into bytes, and never touches a socket, so that every
//! read keeps its kernel stamp.

use std::io::{Read, Write};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    Error, HandshakeKind, RootCertStore, SignatureScheme,
};

use super::socket::{self, Received};
use crate::record::ErrorClass;
use crate::workload::{Endpoint, Tls};

/// Sessions that one reactor remembers.
const SESSIONS: usize = 4096;

/// Files or names for TLS that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// A file with certificates or a key.
    #[error("{what} {path}: {reason}; it must be a PEM file")]
    File {
        /// What it was to hold.
        what: &'static str,
        /// Where it lies.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The certificate and the key do not fit.
    #[error("the client certificate and its key cannot be used: {reason}")]
    Identity {
        /// What is wrong.
        reason: String,
    },
    /// No roots.
    #[error("no certificate authority is known: give one with --cacert")]
    NoRoots,
    /// A name that no certificate can be for.
    #[error("`{name}` is no name that a certificate can be for; give one with --sni")]
    Name {
        /// The name.
        name: String,
    },
}

/// The settings of all connections of one reactor, which remembers its own sessions.
///
/// # Errors
/// A file cannot be read, or what it holds cannot be used.
pub(crate) fn config(tls: &Tls) -> Result<ClientConfig, TlsFilesError> {
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsFilesError::Identity { reason: error.to_string() })?;
    let verified = if tls.verify {
        let given = match &tls.roots {
            Some(path) => certificates("certificate authority", path)?,
            None => Vec::new(),
        };
        let roots = Arc::new(roots(&given)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
        let verifier = verifier.build().map_err(|_| TlsFilesError::NoRoots)?;
        versions.dangerous().with_custom_certificate_verifier(Arc::new(Checked { verifier, given }))
    } else {
        versions.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
    };
    let mut config = match &tls.identity {
        None => verified.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("client certificate", certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| file("client key", key, &error))?;
            verified
                .with_client_auth_cert(chain, key)
                .map_err(|error| TlsFilesError::Identity { reason: error.to_string() })?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption =
        if tls.resume { Resumption::in_memory_sessions(SESSIONS) } else { Resumption::disabled() };
    Ok(config)
}

/// The roots that were given, or those of the system and of webpki together.
fn roots(given: &[CertificateDer<'static>]) -> Result<RootCertStore, TlsFilesError> {
    let mut store = RootCertStore::empty();
    if given.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        // A system without roots, or with some that cannot be read, has those of webpki.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        store.add_parsable_certificates(given.iter().cloned());
    }
    if store.is_empty() { Err(TlsFilesError::NoRoots) } else { Ok(store) }
}

fn certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsFilesError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|error| file(what, path, &error))?;
    if found.is_empty() {
        let reason = "it holds no certificate".to_owned();
        return Err(TlsFilesError::File { what, path: path.to_owned(), reason });
    }
    Ok(found)
}

fn file(what: &'static str, path: &Path, error: &rustls::pki_types::pem::Error) -> TlsFilesError {
    let reason = match error {
        rustls::pki_types::pem::Error::Io(error) => socket::reason(error),
        rustls::pki_types::pem::Error::NoItemsFound => format!("it holds no {what}"),
        other => other.to_string(),
    };
    TlsFilesError::File { what, path: path.to_owned(), reason }
}

/// The name that is asked for and checked. An address is never sent (RFC 6066 §3), only checked.
///
/// # Errors
/// It is neither a name nor an address.
pub(crate) fn server_name(
    endpoint: &Endpoint,
    tls: &Tls,
) -> Result<ServerName<'static>, TlsFilesError> {
    let name = tls.server_name.as_ref().unwrap_or(&endpoint.server_name);
    ServerName::try_from(name.clone()).map_err(|_| TlsFilesError::Name { name: name.clone() })
}

/// The class that a request fails with, and what to say of it.
pub(crate) fn class_of(error: &Error) -> (ErrorClass, String) {
    match error {
        Error::InvalidCertificate(reason) => {
            let text = match reason {
                CertificateError::UnknownIssuer => {
                    "the server's certificate is signed by nobody that is trusted".to_owned()
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "the server's certificate has expired".to_owned()
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => {
                    "the server's certificate is for another name".to_owned()
                }
                other => format!("the server's certificate is not accepted: {other}"),
            };
            (ErrorClass::TlsVerify, text)
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => (
            ErrorClass::TlsHandshake,
            "the server does not offer HTTP/1.1, which tokclock speaks".to_owned(),
        ),
        Error::AlertReceived(alert) => {
            (ErrorClass::TlsHandshake, format!("the server ended TLS with the alert {alert:?}"))
        }
        Error::InvalidMessage(_) => (
            ErrorClass::TlsHandshake,
            "the server does not answer in TLS; is it an http:// server?".to_owned(),
        ),
        other => (ErrorClass::TlsHandshake, other.to_string()),
    }
}

/// What to do about a failure, as the end of a sentence.
pub(crate) fn advice(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "; trust its authority with --cacert FILE, or do without checking with --insecure"
        }
        Error::InvalidCertificate(_) => {
            "; name the right host with --sni, or do without checking with --insecure"
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) => "; it may want a client certificate: --cert FILE --key FILE",
        _ => "",
    }
}

/// What a handshake waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shake {
    /// Nothing: it is over.
    Done,
    /// Bytes of the server.
    Read,
    /// Room for ours.
    Write,
}

/// One connection's TLS: bytes of the socket on one side, plain bytes on the other.
pub(crate) struct Session {
    session: ClientConnection,
    /// Bytes for the socket.
    pub(crate) out: Vec<u8>,
}

impl Session {
    /// A session whose first message waits in `out`.
    pub(crate) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        let mut session = ClientConnection::new(config, name)?;
        // A request is sealed whole, however long.
        session.set_buffer_limit(None);
        let mut new = Self { session, out: Vec::new() };
        new.gather();
        Ok(new)
    }

    /// Was an earlier session resumed?
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Goes on with the handshake as far as socket `fd` allows.
    ///
    /// # Errors
    /// The class and text that the request fails with.
    pub(crate) fn shake_hands(
        &mut self,
        fd: RawFd,
        buffer: &mut [u8],
    ) -> Result<Shake, (ErrorClass, String)> {
        let failed = |text: &str| (ErrorClass::TlsHandshake, text.to_owned());
        loop {
            while !self.out.is_empty() {
                let sent = socket::send(fd, &self.out);
                match sent.map_err(|error| failed(&socket::reason(&error)))? {
                    0 => return Ok(Shake::Write),
                    sent => drop(self.out.drain(..sent)),
                }
            }
            if !self.session.is_handshaking() {
                return Ok(Shake::Done);
            }
            match socket::receive(fd, buffer) {
                Received::Bytes { len, .. } => {
                    // A server has nothing to say before it is asked.
                    let taken = self.take(&buffer[..len], &mut Vec::new());
                    if let Err(error) = taken {
                        // The alert may tell the server why; nobody waits for it.
                        let _ = socket::send(fd, &self.out);
                        return Err(class_of(&error));
                    }
                }
                Received::Empty => return Ok(Shake::Read),
                Received::Eof => return Err(failed("the server closed during the TLS handshake")),
                Received::Broken(errno) => {
                    let error = std::io::Error::from_raw_os_error(errno);
                    return Err(failed(&socket::reason(&error)));
                }
            }
        }
    }

    /// Takes bytes of the socket; what they hold is appended to `plain`, and what is to be answered
    /// waits in `out`. Returns whether the peer has ended the session in order.
    pub(crate) fn take(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<bool, Error> {
        let mut ended = false;
        while !wire.is_empty() {
            let taken = self.session.read_tls(&mut wire);
            let state = self.session.process_new_packets();
            if state.is_err() {
                // The alert that tells the peer why.
                self.gather();
            }
            let state = state?;
            let length = state.plaintext_bytes_to_read();
            let from = plain.len();
            plain.resize(from + length, 0);
            let got = self.session.reader().read(&mut plain[from..]).unwrap_or(0);
            plain.truncate(from + got);
            ended |= state.peer_has_closed();
            // Nothing was taken: there is no room, or the session is over.
            if taken.unwrap_or(0) == 0 {
                break;
            }
        }
        if self.session.wants_write() {
            self.gather();
        }
        Ok(ended)
    }

    /// Seals `plain`, to be found in `out`, which holds nothing else afterwards.
    pub(crate) fn seal(&mut self, plain: &[u8]) {
        self.out.clear();
        // Without a limit all is taken.
        let _ = self.session.writer().write_all(plain);
        self.gather();
    }

    fn gather(&mut self) {
        while self.session.wants_write() {
            // Writing to memory cannot fail.
            if self.session.write_tls(&mut self.out).is_err() {
                break;
            }
        }
    }
}

/// Accepts what webpki accepts, and a server whose own certificate was given as a root: most tools
/// that sign themselves make one that may sign others too, which webpki takes for no server's.
#[derive(Debug)]
struct Checked {
    verifier: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Checked {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.verifier.verify_server_cert(end, between, name, ocsp, now) {
            // What else it may be, such as expired, has a name of its own.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.given.iter().any(|one| one == end) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Accepts every certificate, whoever signed it.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
