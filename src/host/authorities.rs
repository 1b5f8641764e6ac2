//! The authorities that vouch for servers on https: the built-in list, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`,
//! as for curl and OpenSSL. Must not know the servers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// The variable that names a file of certificates.
const FILE: &str = "SSL_CERT_FILE";
/// The variable that names directories of certificates, separated by `:`.
const DIRECTORIES: &str = "SSL_CERT_DIR";
/// Limit on the files of a directory that are read: the usual lists have some 300, each under two names.
const FILES_MAX: usize = 2000;

/// The trusted authorities; by default Mozilla's list, which is built in.
#[derive(Clone, Debug, Default)]
pub struct Authorities {
    /// A file of certificates, and the setting that names it.
    file: Option<(&'static str, PathBuf)>,
    directories: Vec<PathBuf>,
}

impl Authorities {
    /// Uses the authorities that the environment names; they are read only when a server on https is contacted.
    #[must_use]
    pub fn of(environment: &BTreeMap<OsString, OsString>) -> Self {
        let named = |name: &str| environment.get(OsStr::new(name)).filter(|value| !value.is_empty());
        Self {
            file: named(FILE).map(|path| (FILE, PathBuf::from(path))),
            directories: named(DIRECTORIES).into_iter().flat_map(std::env::split_paths).collect(),
        }
    }

    /// Uses the authorities in one file, which the setting `name` names.
    #[must_use]
    pub fn in_file(name: &'static str, path: PathBuf) -> Self {
        Self { file: Some((name, path)), directories: Vec::new() }
    }

    /// Returns the settings of encrypted connections over HTTP. If the environment names authorities, only they count.
    ///
    /// # Errors
    /// The problem with the environment's authorities, in words.
    pub fn tls(&self) -> Result<TlsConfig, String> {
        let roots = match self.are_built_in() {
            true => RootCerts::WebPki,
            false => RootCerts::Specific(Arc::new(self.read()?)),
        };
        Ok(TlsConfig::builder().root_certs(roots).build())
    }

    /// Returns the settings of other encrypted connections, with the same authorities.
    ///
    /// # Errors
    /// The problem with the authorities, in words.
    pub fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        if self.are_built_in() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        } else {
            roots
                .add_parsable_certificates(self.read()?.iter().map(|found| CertificateDer::from(found.der().to_vec())));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }

    fn are_built_in(&self) -> bool {
        self.file.is_none() && self.directories.is_empty()
    }

    fn read(&self) -> Result<Vec<Certificate<'static>>, String> {
        let mut found = Vec::new();
        if let Some((name, path)) = &self.file {
            let wrong = |why: &str| format!("{name} names {}: {why}", path.display());
            found = certificates(path).map_err(|why| wrong(&why))?;
            if found.is_empty() {
                return Err(wrong("it holds no certificate (PEM)"));
            }
        }
        for directory in &self.directories {
            let wrong = |why: String| format!("{DIRECTORIES} names {}: {why}", directory.display());
            // A directory may contain other files too.
            let files = files_of(directory).map_err(wrong)?;
            found.extend(files.iter().flat_map(|path| certificates(path).unwrap_or_default()));
        }
        match found.is_empty() {
            true => Err(format!("{DIRECTORIES} names directories that hold no certificate (PEM)")),
            false => Ok(found),
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let text = super::read_text(path)?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    Ok(parse_pem(text.as_bytes()).filter_map(certificate).collect())
}

fn files_of(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).take(FILES_MAX).collect();
    // Sorted, so that the order is the same on every machine.
    files.sort();
    Ok(files)
}

/// Explains a problem with a server's certificate, with the next step; `None` if `why`, the TLS library's own words, is about
/// something else.
#[must_use]
pub fn certificate_problem(why: &str) -> Option<(String, &'static str)> {
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    Some(if why.contains(FILE) || why.contains(DIRECTORIES) {
        (why.to_owned(), "correct the variable, or unset it to trust the authorities that are built in")
    } else if has(&["not valid for name", "NotValidForName"]) {
        let names = why.split_once("only valid for ").map(|(_, names)| format!(": it is for {names}"));
        let message = format!("the server's certificate is for another name{}", names.unwrap_or_default());
        (message, "use the name in the certificate; under another name it may be someone else's machine")
    } else if has(&["expired", "Expired"]) {
        ("the server's certificate has expired".to_owned(), "its owner must renew it; or this machine's clock is wrong")
    } else if has(&["not valid yet", "NotValidYet"]) {
        ("the server's certificate isn't valid yet".to_owned(), "check this machine's clock")
    } else if has(&["UnknownIssuer", "CaUsedAsEndEntity", "BadSignature"]) {
        (
            "no trusted authority vouches for the server's certificate".to_owned(),
            "if you trust that server, let SSL_CERT_FILE name its authority's certificate (PEM), and restart reedclaw",
        )
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_authorities_are_reported() {
        let of = |name: &str, value: &str| {
            Authorities::of(&BTreeMap::from([(OsString::from(name), OsString::from(value))])).tls()
        };
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("none.pem");
        let why = of(FILE, path.to_str().expect("text")).expect_err("a problem");
        assert!(why.contains(FILE) && why.contains("none.pem"), "{why}");
        let empty = directory.path().to_str().expect("text");
        assert!(of(DIRECTORIES, empty).expect_err("a problem").contains("no certificate"));
        std::fs::write(&path, "words").expect("a file");
        assert!(of(FILE, path.to_str().expect("text")).expect_err("a problem").contains("no certificate"));
        assert!(of(FILE, "").is_ok(), "an empty variable is none");
    }

    #[test]
    fn problems_of_certificates_are_reported_in_plain_words() {
        for (why, words) in [
            ("io: invalid peer certificate: UnknownIssuer", "vouches"),
            ("invalid peer certificate: certificate expired: …", "has expired"),
            ("certificate not valid for name \"a\"; certificate is only valid for DnsName(\"b\")", "DnsName(\"b\")"),
        ] {
            let (message, hint) = certificate_problem(why).expect("a problem");
            assert!(message.contains(words) && !hint.is_empty(), "{message}");
        }
        assert_eq!(certificate_problem("connection reset"), None);
    }
}
