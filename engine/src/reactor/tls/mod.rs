//! TLS over our own sockets: rustls turns bytes into bytes, and never touches a socket, so that every
//! read keeps its kernel stamp.

mod session;
mod verify;

pub(crate) use session::{Session, Shake};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};

use self::verify::{Checked, Unchecked};
use super::socket;
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
                CertificateError::Other(other) => {
                    format!("the server's certificate is not accepted: {other}")
                }
                other => {
                    // The rest of it is bytes.
                    let name = format!("{other:?}");
                    let name = name.split([' ', '(', '{']).next().unwrap_or_default();
                    format!("the server's certificate is not accepted: {name}")
                }
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
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "; name the right host with --sni, or do without checking with --insecure",
        Error::InvalidCertificate(_) => {
            "; trust its authority with --cacert FILE, or do without checking with --insecure"
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) => "; it may want a client certificate: --cert FILE --key FILE",
        _ => "",
    }
}
