//! What the router shows to its clients: the certificate that the configuration names, or one that
//! is made at the first start and kept.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use config::Identity;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use ring::digest::{SHA256, digest};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Its names below the folder of what the daemon keeps.
pub(crate) const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "private_key.pem";
/// Clients that pin it need it for long; nobody else checks it.
const LAST_YEAR: i32 = 2099;

/// What connections are made with.
#[derive(Clone)]
pub(crate) struct Shown {
    pub config: Arc<ServerConfig>,
    /// SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` prints it.
    pub fingerprint: String,
}

/// Reads a certificate and its key.
///
/// # Errors
/// What is wrong with one of them, or that they do not belong together.
pub(crate) fn read(certificate: &str, key: &str) -> Result<Shown, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("certificate: it is no PEM: {error}"))?;
    let first = chain.first().ok_or("certificate: there is none in it")?;
    let fingerprint = fingerprint(first);
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|error| format!("private_key: there is none in it: {error}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("certificate and private_key: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Shown { config: Arc::new(config), fingerprint })
}

/// The certificate that the configuration names.
///
/// # Errors
/// As [`read`].
pub(crate) fn named(identity: &Identity) -> Result<Shown, String> {
    read(&identity.certificate, identity.key.reveal())
}

/// The certificate that is kept in a folder; made, where there is none.
///
/// # Errors
/// What the system says, or what is wrong with what is kept.
pub(crate) fn kept(folder: &Path, listen: &[SocketAddr]) -> Result<Shown, String> {
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    if !certificate.exists() && !key.exists() {
        make(folder, listen)?;
    }
    let text = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("{}: cannot read it: {error}", path.display()))
    };
    let shown = text(&certificate).and_then(|certificate| read(&certificate, &text(&key)?));
    shown.map_err(|wrong| format!("{wrong}; without both files of {} they are made anew", folder.display()))
}

fn make(folder: &Path, listen: &[SocketAddr]) -> Result<(), String> {
    let failed = |error: rcgen::Error| format!("cannot make a certificate: {error}");
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let names = host.into_iter().chain(["localhost".to_owned()]).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names).map_err(failed)?;
    let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
    let own = listen.iter().map(SocketAddr::ip).filter(|address| !address.is_unspecified());
    let mut addresses: Vec<IpAddr> = own.chain(loopback).collect();
    addresses.sort();
    addresses.dedup();
    params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
    params.distinguished_name.push(DnType::CommonName, "Bifrost router");
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(LAST_YEAR, 12, 31);
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: cannot write it: {error}")
    };
    fs::create_dir_all(folder).map_err(at(folder))?;
    // The key first: a start that was cut off between the two is told, not repaired with another.
    for (name, text, mode) in [(KEY, key.serialize_pem(), 0o600), (CERTIFICATE, certificate.pem(), 0o644)] {
        let path = folder.join(name);
        let beside = folder.join(format!("{name}.new"));
        let _ = fs::remove_file(&beside);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside);
        let written = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        });
        written.map_err(at(&path))?;
    }
    Ok(())
}

/// `AB:CD:...`.
fn fingerprint(certificate: &CertificateDer) -> String {
    let hash = digest(&SHA256, certificate);
    hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("api");
        let listen = ["192.0.2.1:8443".parse().unwrap(), "[::]:8443".parse().unwrap()];
        let first = kept(&inside, &listen).unwrap();
        assert_eq!(kept(&inside, &listen).unwrap().fingerprint, first.fingerprint);
        assert_eq!(first.fingerprint.len(), 32 * 3 - 1);
        let text = |name| fs::read_to_string(inside.join(name)).unwrap();
        let (certificate, key) = (text(CERTIFICATE), text(KEY));
        assert!(read(&certificate, &certificate).err().unwrap().contains("private_key"));
        assert!(read("", &key).err().unwrap().contains("certificate"));
        fs::remove_file(inside.join(KEY)).unwrap();
        assert!(kept(&inside, &listen).err().unwrap().contains("made anew"));
        fs::remove_file(inside.join(CERTIFICATE)).unwrap();
        let other = kept(&inside, &listen).unwrap();
        assert_ne!(other.fingerprint, first.fingerprint);
        assert!(read(&certificate, &text(KEY)).err().unwrap().contains("certificate and private_key"));
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(inside.join(KEY)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
