//! Tokens of an external sign-in: JSON Web Tokens (RFC 7519) with the signatures RS256 and ES256 (RFC 7518), whose keys are a JWK
//! set (RFC 7517). Only the user's name is used; rights come from the tenant's members. Pure.

use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use super::is_id;
use crate::base::base64;

/// Bytes of a token.
const BYTES_MAX: usize = 8 * 1024;
/// Keys of a set.
const KEYS_MAX: usize = 64;
/// Seconds by which the clocks of two machines may differ.
const LEEWAY_S: i64 = 60;

/// A key that signs tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    public: Public,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Public {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// An uncompressed point of P-256.
    Ec(Vec<u8>),
}

/// A set of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

/// The terms under which a token counts here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The issuer.
    pub issuer: String,
    /// The audience.
    pub audience: String,
}

impl Keys {
    /// Reads a JWK set. Keys of other kinds, and those that only encrypt, are left out.
    #[must_use]
    pub fn read(set: &Value) -> Self {
        let keys = set["keys"].as_array().into_iter().flatten().take(KEYS_MAX);
        Self(keys.filter_map(Key::read).collect())
    }

    /// Returns whether the set has a key with the name in the token, or a key without a name.
    #[must_use]
    pub fn know(&self, token: &str) -> bool {
        let id = head(token).and_then(|head| head["kid"].as_str().map(str::to_owned));
        self.0.iter().any(|key| key.id.is_none() || id.is_none() || key.id == id)
    }

    /// Returns the user of a token, if one of the keys signed it, and it is valid at `now_s` and meant for us.
    #[must_use]
    pub fn user_of(&self, token: &str, terms: &Terms, now_s: i64) -> Option<String> {
        if token.len() > BYTES_MAX {
            return None;
        }
        let head = head(token)?;
        // `none` and the algorithms with a shared secret aren't among these, and no critical extension is known.
        let algorithm = head["alg"].as_str().filter(|name| matches!(*name, "RS256" | "ES256"))?;
        if !head["crit"].is_null() {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = base64::decode_url(signature)?;
        let id = head["kid"].as_str();
        let fits = |key: &&Key| key.id.is_none() || id.is_none() || key.id.as_deref() == id;
        let holds = |key: &Key| key.holds(algorithm, signed.as_bytes(), &signature);
        if !self.0.iter().filter(fits).any(holds) {
            return None;
        }
        let claims: Value = serde_json::from_slice(&base64::decode_url(signed.split('.').nth(1)?)?).ok()?;
        let is_for_us = match &claims["aud"] {
            Value::String(one) => *one == terms.audience,
            Value::Array(all) => all.iter().any(|one| *one == terms.audience),
            _ => false,
        };
        let ends = claims["exp"].as_f64()?;
        let begins = match &claims["nbf"] {
            Value::Null => 0.0,
            other => other.as_f64()?,
        };
        #[expect(clippy::cast_precision_loss, reason = "seconds of our time fit a double")]
        let (now, leeway) = (now_s as f64, LEEWAY_S as f64);
        let is_in_force = now < ends + leeway && begins <= now + leeway;
        let user = claims["sub"].as_str().filter(|user| is_id(user))?;
        (is_for_us && is_in_force && claims["iss"] == *terms.issuer).then(|| user.to_owned())
    }
}

/// Returns whether a secret looks like such a token.
#[must_use]
pub fn is_jwt(secret: &str) -> bool {
    secret.starts_with("ey") && secret.bytes().filter(|byte| *byte == b'.').count() == 2
}

fn head(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let first = parts.next()?;
    (parts.count() == 2).then_some(())?;
    serde_json::from_slice(&base64::decode_url(first)?).ok()
}

impl Key {
    fn read(value: &Value) -> Option<Self> {
        if value["use"].as_str().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let part = |name: &str| base64::decode_url(value[name].as_str()?);
        let public = match value["kty"].as_str()? {
            "RSA" => Public::Rsa(part("n")?, part("e")?),
            "EC" if value["crv"] == "P-256" => {
                let (x, y) = (part("x")?, part("y")?);
                (x.len() == 32 && y.len() == 32).then_some(())?;
                Public::Ec([&[4][..], &x, &y].concat())
            }
            _ => return None,
        };
        Some(Self { id: value["kid"].as_str().map(str::to_owned), public })
    }

    /// Returns whether this key made a signature of an algorithm. A key is used for its own algorithm only.
    fn holds(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        match (&self.public, algorithm) {
            (Public::Rsa(n, e), "RS256") => {
                let public = RsaPublicKeyComponents { n, e };
                public.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            (Public::Ec(point), "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_57_a_token_of_another_sign_in_counts_by_its_signature_terms_and_time() {
        let all: Value = serde_json::from_str(include_str!("../../../tests/data/gateway/jwt.json")).expect("JSON");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let (keys, end) = (Keys::read(&all["jwks"]), all["exp"].as_i64().expect("a time"));
        let terms = Terms { issuer: text(&all["issuer"]), audience: text(&all["audience"]) };
        let user = |name: &str, now: i64| keys.user_of(&text(&all["tokens"][name]), &terms, now);
        let now = 1_800_000_000;
        for name in ["rs256", "es256", "unnamed"] {
            assert_eq!(user(name, now).as_deref(), Some("anna"), "{name}");
            assert!(is_jwt(&text(&all["tokens"][name])) && keys.know(&text(&all["tokens"][name])));
            assert_eq!((user(name, end + LEEWAY_S), user(name, 1_600_000_000)), (None, None), "{name}: its time");
        }
        for name in [
            "none",
            "hs256",
            "encrypting_key",
            "swapped",
            "critical",
            "other_issuer",
            "other_audience",
            "without_end",
            "odd_user",
        ] {
            assert_eq!(user(name, now), None, "{name}");
        }
        // Changing any byte must fail: of the head, the claims and the signature.
        let token = text(&all["tokens"]["es256"]);
        for at in (0..token.len()).filter(|at| token.as_bytes()[*at] != b'.') {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(bytes).expect("a text");
            let is_same = other
                .split('.')
                .zip(token.split('.'))
                .all(|(one, two)| base64::decode_url(one) == base64::decode_url(two));
            assert!(is_same || keys.user_of(&other, &terms, now).is_none(), "byte {at}");
        }
        assert_eq!(Keys::read(&Value::Null).user_of(&token, &terms, now), None);
        assert!(!Keys::read(&Value::Null).know(&token));
    }
}
