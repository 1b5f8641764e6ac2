//! Secrets by their form: a table of rules, each with its anchors, its reader, and examples, which are its tests.
//!
//! In examples `§` is at both ends of the secret, and `{a36}` for 36 drawn letters and digits, so that no scanner of
//! repositories takes an example for a secret: `a` letters and digits, `c` letters, `h` hexadecimal, `u` capitals and 2
//! to 7, `l` small letters and digits, `d` digits, `b` base64.

use super::looks::*;
use super::read::{Seen, Text, alnum, base64, dashed, dotted, encoded, hexadecimal, in_query, path, word};

/// One kind of secret.
pub(super) struct Rule {
    /// Its name in the mark.
    pub kind: &'static str,
    /// The place in a text where an anchor counts.
    pub place: Place,
    /// Its beginnings; at least three characters each, in small letters if they are folded.
    pub anchors: &'static [&'static str],
    /// Reads the text from the anchor's beginning and its end on.
    pub look: fn(&Text<'_>, usize, usize) -> Seen,
    /// Texts with a secret.
    #[cfg(test)]
    pub hides: &'static [&'static str],
    /// Texts that look like a secret and have none.
    #[cfg(test)]
    pub leaves: &'static [&'static str],
}

/// The place in a text where an anchor counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At the start of a word, in any case of letters.
    Word,
    /// At the start of a word, in exactly these letters.
    Exact,
    /// Anywhere, whatever the case of its letters.
    Inside,
    /// Anywhere, in just these letters.
    Literal,
}

macro_rules! rules {
    ($($kind:literal, $place:ident [$($anchor:literal)+], $look:expr,
        hides [$($hides:literal)+], leaves [$($leaves:literal)*];)+) => {
        /// All rules.
        pub(super) static RULES: &[Rule] = &[$(Rule {
            kind: $kind,
            place: Place::$place,
            anchors: &[$($anchor),+],
            look: $look,
            #[cfg(test)]
            hides: &[$($hides),+],
            #[cfg(test)]
            leaves: &[$($leaves),*],
        }),+];
    };
}

rules! {
    // Tokens with a prefix of their own.
    "GitHub token", Word ["ghp_" "gho_" "ghu_" "ghs_" "ghr_"], |t, s, a| run(t, s, a, alnum, 30),
        hides ["token §ghp_{a36}§!" "bot §ghs_{a36}§"],
        leaves ["ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" "ghp_short1"];
    "GitHub token", Word ["github_pat_"], |t, s, a| run(t, s, a, word, 22),
        hides ["(§github_pat_{a22}_{a59}§)"], leaves ["github_pat_ begins one"];
    "GitLab token", Word ["glpat-" "glptt-" "gldt-" "glrt-" "glft-" "glsoat-" "glcbt-" "glagent-" "gloas-" "glimt-"
        "glffct-" "gr1348941"], |t, s, a| run(t, s, a, dashed, 16),
        hides ["export A=§glpat-{a20}§" "--registration-token §GR1348941{a20}§"], leaves ["glpat-xxxxxxxxxxxxxxxxxxxx"];
    "API key", Word ["sk-"], api_key,
        hides ["§sk-{a48}§" "\"§sk-ant-api03-{a40}-{a30}AA§\"" "§sk-proj-{a30}_{a30}§" "§sk-{h32}§"],
        leaves ["sk-learn-is-a-library-for-all-of-us and sk-estimators" "task-runner, disk-usage" "sk-xxxxxxxxxxxxxxxxxxxx1"];
    "Google key", Exact ["AIza"], |t, s, a| run(t, s, a, dashed, 35), hides ["x §AIza{a35}§ y"], leaves ["aizawa"];
    "Google token", Word ["ya29."], |t, s, a| run(t, s, a, dotted, 20), hides ["§ya29.{a60}§"], leaves ["ya29. is a page"];
    "Google token", Word ["1//0"], |t, s, a| run(t, s, a, dashed, 40), hides ["\"refresh\":\"§1//0{a60}§\""], leaves ["1//0 = ∞"];
    "Google secret", Exact ["GOCSPX-"], |t, s, a| run(t, s, a, dashed, 20), hides ["§GOCSPX-{a28}§"], leaves ["GOCSPX-x"];
    "Slack token", Word ["xoxb-" "xoxp-" "xoxa-" "xoxr-" "xoxs-" "xoxe-" "xoxc-" "xoxd-" "xapp-"],
        |t, s, a| run(t, s, a, dashed, 10),
        hides ["x §xoxb-123456789012-{a24}§ y"], leaves ["xoxb-..."];
    "Slack address", Word ["hooks.slack.com/services/"], |t, s, a| run(t, s, a, path, 20),
        hides ["https://§hooks.slack.com/services/T0ABC/B0DEF/{a24}§"], leaves ["hooks.slack.com/services/ is where they go"];
    "Discord address", Word ["discord.com/api/webhooks/" "discordapp.com/api/webhooks/"],
        |t, s, a| run(t, s, a, path, 40),
        hides ["https://§discord.com/api/webhooks/{d18}/{a68}§"], leaves ["discord.com/api/webhooks/ID"];
    // The beginning is the bot's number in base64: 120 ways to write its first two digits.
    "Discord token", Exact [
        "MTA" "MTE" "MTI" "MTM" "MTQ" "MTU" "MTY" "MTc" "MTg" "MTk" "MjA" "MjE" "MjI" "MjM" "MjQ" "MjU" "MjY" "Mjc" "Mjg"
        "Mjk" "MzA" "MzE" "MzI" "MzM" "MzQ" "MzU" "MzY" "Mzc" "Mzg" "Mzk" "NDA" "NDE" "NDI" "NDM" "NDQ" "NDU" "NDY" "NDc"
        "NDg" "NDk" "NTA" "NTE" "NTI" "NTM" "NTQ" "NTU" "NTY" "NTc" "NTg" "NTk" "NjA" "NjE" "NjI" "NjM" "NjQ" "NjU" "NjY"
        "Njc" "Njg" "Njk" "NzA" "NzE" "NzI" "NzM" "NzQ" "NzU" "NzY" "Nzc" "Nzg" "Nzk" "ODA" "ODE" "ODI" "ODM" "ODQ" "ODU"
        "ODY" "ODc" "ODg" "ODk" "OTA" "OTE" "OTI" "OTM" "OTQ" "OTU" "OTY" "OTc" "OTg" "OTk"], discord,
        hides ["client.login('§MTE{a21}.G{a5}.{a38}§')" "Bot §NzY{a21}.{a6}.{a27}§"], leaves ["MTA is an agent" "MTE.a.b"];
    "Telegram token", Literal [":AA"], telegram,
        hides ["1234567890:§AA{a33}§" "https://api.telegram.org/bot987654321:§AA{a33}§/getMe"],
        leaves ["12:34:56:AA:BB:CC" "x:AA{a33}"];
    "AWS key id", Word ["akia" "asia"], aws_id,
        hides ["aws_access_key_id = §AKIAQ2W3E4R5T6Y7U8I9§"],
        leaves ["AKIA is a prefix; ASIAN food" "AKIAIOSFODNN7EXAMPLE"];
    "Stripe key", Word ["sk_live_" "sk_test_" "rk_live_" "rk_test_"], |t, s, a| run(t, s, a, alnum, 16),
        hides ["§sk_live_{a24}§"], leaves ["sk_test_key"];
    "Stripe secret", Word ["whsec_"], |t, s, a| run(t, s, a, base64, 24), hides ["§whsec_{a32}§"], leaves ["whsec_..."];
    "npm token", Word ["npm_"], |t, s, a| run(t, s, a, alnum, 36),
        hides ["//r/:_authToken=§npm_{a36}§"], leaves ["npm_config_registry"];
    "PyPI token", Word ["pypi-"], |t, s, a| run(t, s, a, dashed, 50), hides ["§pypi-{a80}§"], leaves ["pypi-server"];
    "Hugging Face token", Word ["hf_"], |t, s, a| run(t, s, a, alnum, 30),
        hides ["§hf_{a34}§" "HF=§hf_{c34}§"], leaves ["hf_hub_download" "hf_transformersAutoModelForCausalLanguage"];
    "Groq key", Word ["gsk_"], |t, s, a| run(t, s, a, alnum, 40), hides ["§gsk_{a52}§"], leaves ["gsk_renderer_new"];
    "xAI key", Word ["xai-"], |t, s, a| run(t, s, a, alnum, 40), hides ["§xai-{a80}§"], leaves ["xai-sdk"];
    "Perplexity key", Word ["pplx-"], |t, s, a| run(t, s, a, alnum, 32), hides ["§pplx-{a48}§"], leaves ["pplx-api"];
    "Replicate token", Word ["r8_"], |t, s, a| run(t, s, a, alnum, 30), hides ["§r8_{a37}§"], leaves ["r8_unorm"];
    "Docker token", Word ["dckr_pat_" "dckr_oat_"], |t, s, a| run(t, s, a, dashed, 20), hides ["§dckr_pat_{a27}§"], leaves [];
    "DigitalOcean token", Word ["dop_v1_" "doo_v1_" "dor_v1_"], |t, s, a| run(t, s, a, alnum, 60), hides ["§dop_v1_{h64}§"], leaves [];
    "Databricks token", Word ["dapi"], |t, s, a| run(t, s, a, hexadecimal, 32), hides ["§dapi{h32}§"], leaves ["dapi version"];
    "SendGrid key", Exact ["SG."], |t, s, a| run(t, s, a, dotted, 60), hides ["§SG.{a22}.{a43}§"], leaves ["sg.example.org"];
    "Linear key", Word ["lin_api_" "lin_oauth_"], |t, s, a| run(t, s, a, alnum, 30), hides ["§lin_api_{a40}§"], leaves [];
    "Tailscale key", Word ["tskey-"], |t, s, a| run(t, s, a, dashed, 20), hides ["§tskey-auth-{a12}-{a32}§"], leaves [];
    "Vault token", Word ["hvs." "hvb." "hvr."], |t, s, a| run(t, s, a, dashed, 24), hides ["§hvs.{a90}§"], leaves ["hvs.example.org"];
    "Shopify token", Word ["shpat_" "shpss_" "shpca_" "shppa_"], |t, s, a| run(t, s, a, hexadecimal, 32), hides ["§shpat_{h32}§"], leaves [];
    "age key", Word ["age-secret-key-1"], |t, s, a| run(t, s, a, alnum, 50), hides ["§AGE-SECRET-KEY-1{u58}§"], leaves [];
    "Atlassian token", Exact ["ATATT3" "ATCTT3" "ATBB"], |t, s, a| run(t, s, a, encoded, 24),
        hides ["jira login with §ATATT3xFfGF0{a170}={u8}§" "§ATBB{a32}§"], leaves ["ATATT3 is how they begin"];
    "Sentry token", Word ["sntrys_" "sntryu_"], |t, s, a| run(t, s, a, encoded, 40),
        hides ["auth.token=§sntrys_{b100}_{a43}§" "§sntryu_{h64}§"], leaves [];
    "Notion token", Word ["ntn_"], |t, s, a| run(t, s, a, alnum, 40), hides ["§ntn_{a46}§"], leaves ["ntn_index"];
    "Notion token", Word ["secret_"], |t, s, a| exact(t, s, a, alnum, 43),
        hides ["Client(auth=\"§secret_{a43}§\")"], leaves ["secret_garden_of_the_old_house" "secret_{a20}"];
    "Figma token", Word ["figd_" "figo_" "figoh_"], |t, s, a| run(t, s, a, dashed, 35), hides ["§figd_{a40}§"], leaves ["figd_..."];
    "New Relic key", Exact ["NRAK-" "NRJS-" "NRII-" "NRRA-" "NRIQ-"], |t, s, a| run(t, s, a, dashed, 19),
        hides ["§NRAK-{u27}§" "§NRII-{a32}§"], leaves ["NRAK-KEY"];
    // The part before the dot is useless without the rest.
    "Terraform token", Literal [".atlasv1."], |t, s, a| run(t, s, a, dashed, 40),
        hides ["{a14}§.atlasv1.{a67}§"], leaves ["x.atlasv1.y"];
    "Mailgun key", Word ["key-"], |t, s, a| exact(t, s, a, hexadecimal, 32), hides ["'api:§key-{h32}§'"], leaves ["key-value" "key-{h40}"];
    "Square token", Exact ["EAAA"], |t, s, a| exact(t, s, a, dashed, 60), hides ["§EAAA{a60}§"], leaves ["EAAA is short" "x/EAAA{a60}"];
    "Square token", Word ["sq0atp-" "sq0csp-"], |t, s, a| run(t, s, a, dashed, 20), hides ["§sq0csp-{a43}§"], leaves ["sq0csp-"];
    "Twilio key", Exact ["SK0" "SK1" "SK2" "SK3" "SK4" "SK5" "SK6" "SK7" "SK8" "SK9" "SKa" "SKb" "SKc" "SKd" "SKe" "SKf"],
        |t, s, a| exact(t, s, a, hexadecimal, 31),
        hides ["§SK{h32}§"], leaves ["SK12345678" "SKU 1"];
    "Okta token", Exact ["SSWS "], |t, s, a| run(t, s, a, dashed, 30), hides ["token §SSWS 00{a40}§"], leaves ["SSWS and the rest"];
    "Azure secret", Literal ["0Q~" "1Q~" "2Q~" "3Q~" "4Q~" "5Q~" "6Q~" "7Q~" "8Q~" "9Q~"], azure,
        hides ["the new value is {a3}§8Q~{a34}§ until May"], leaves ["8Q~ is no token"];
    "Postman key", Exact ["PMAK-"], |t, s, a| run(t, s, a, dashed, 40), hides ["§PMAK-{h24}-{h34}§"], leaves [];
    "Pulumi token", Word ["pul-"], |t, s, a| exact(t, s, a, hexadecimal, 40), hides ["§pul-{h40}§"], leaves ["pul-up"];
    "Grafana token", Word ["glsa_" "glc_"], |t, s, a| run(t, s, a, encoded, 40), hides ["§glsa_{a32}_{h8}§"], leaves [];
    "Dynatrace token", Word ["dt0c01." "dt0s01."], |t, s, a| run(t, s, a, dotted, 60), hides ["§dt0c01.{u24}.{u64}§"], leaves [];
    "Netlify token", Word ["nfp_"], |t, s, a| run(t, s, a, alnum, 30), hides ["§nfp_{a36}§"], leaves [];
    "Fly token", Word ["fm1r_" "fm2_" "fo1_"], |t, s, a| run(t, s, a, encoded, 40), hides ["FlyV1 §fm2_{b120}§"], leaves [];
    "Doppler token", Word ["dp.pt." "dp.st." "dp.ct." "dp.sa."], |t, s, a| run(t, s, a, dotted, 30), hides ["§dp.pt.{a43}§"], leaves [];
    "Supabase token", Word ["sbp_"], |t, s, a| run(t, s, a, hexadecimal, 40), hides ["§sbp_{h40}§"], leaves ["sbp_index_of_all"];
    "RubyGems key", Word ["rubygems_"], |t, s, a| run(t, s, a, hexadecimal, 48),
        hides [":rubygems_api_key: §rubygems_{h48}§"], leaves ["rubygems_version"];
    "Contentful token", Exact ["CFPAT-"], |t, s, a| run(t, s, a, dashed, 43), hides ["§CFPAT-{a43}§"], leaves ["CFPAT-..."];
    "Brevo key", Word ["xkeysib-"], |t, s, a| run(t, s, a, dashed, 40), hides ["§xkeysib-{h64}-{a16}§"], leaves [];
    "1Password token", Word ["ops_eyj"], |t, s, a| run(t, s, a, encoded, 100), hides ["§ops_eyJ{a200}§"], leaves [];
    "JWT", Exact ["eyJ"], jwt,
        hides ["§eyJ{a20}.eyJ{a30}.{a43}§, and so on"], leaves ["eyJhbGciOiJIUzI1NiJ9 alone is no JWT"];
    "token in base64", Literal ["OmdocF" "pnaHBf" "6Z2hwX" "6Z2l0aHViX3BhdF" "OmdpdGh1Yl9wYXRf" "pnaXRodWJfcGF0X" "6Z2xwYXQt" "OmdscGF0L" "pnbHBhdC"],
        in_base64,
        hides ["x eD§pnaHBf{a48}==§" "dTo§6Z2hwX{a48}§"], leaves ["OmdocF is short"];

    // Keys and hashes.
    "password hash", Literal ["$1$" "$5$" "$6$" "$y$" "$2a$" "$2b$" "$2y$" "$argon2" "$gy$" "$7$" "$apr1$" "$pbkdf2" "$scrypt$"], hash,
        hides ["root:§$6$salt.salt${a86}§:19000:0" "root:§$y$j9T${a22}${a43}§:" "§$2b$12${a53}§" "alice:§$apr1${a8}${a22}§"],
        leaves ["echo $1 $2 $6$x; awk '{print $5$6}'" "$apr1$ is Apache's"];
    "password hash", Literal ["{SHA}" "{SSHA}" "{SSHA512}" "pbkdf2_sha256$" "pbkdf2:sha256:"], |t, s, a| {
            run(t, s, a, |byte| encoded(byte) || matches!(byte, b'$' | b':'), 26)
        },
        hides ["bob:§{SHA}{a27}=§" "§pbkdf2_sha256$600000${a22}${a43}=§"], leaves ["{SHA} is a scheme"];
    "private key", Inside ["-----begin "], block,
        hides ["x\n§-----BEGIN RSA PRIVATE KEY-----\nMIIE{a60}\n{a64}\n-----END RSA PRIVATE KEY-----§\ny"
            "§-----BEGIN OPENSSH PRIVATE KEY-----\nMIIE{a60}\n{a64}\n-----END OPENSSH PRIVATE KEY-----§"
            "§-----BEGIN PGP PRIVATE KEY BLOCK-----\nComment: x\n\n{a60}\n{a64}\n-----END PGP PRIVATE KEY BLOCK-----§"
            "§-----BEGIN PRIVATE KEY-----\nMIIE{a60}\n{a12}§\nand prose follows."
            "{\"key\":\"§-----BEGIN PRIVATE KEY-----\\nMIIE{a60}\\n{a64}\\n-----END PRIVATE KEY-----§\"}"],
        leaves ["-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
            "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----"];
    "private key", Literal ["LS0tLS1CRUdJTi"], encoded_block,
        hides ["client-key-data: §LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo{b200}==§"],
        leaves ["certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg{b200}"];
    "private key", Inside ["client-key-data"], encoded_value,
        hides ["    client-key-data: §{b200}==§"], leaves ["client-key-data: ${KEY}"];
    "private key", Inside ["private-lines: "], putty,
        hides ["Private-Lines: 1\n§{b64}§\nPrivate-MAC: 00"], leaves ["Private-Lines: none"];
    "private key", Literal ["\"d\""], web_key,
        hides ["{\"kty\":\"RSA\",\"d\":\"§{a86}§\"}"], leaves ["{\"d\": \"M12 3l4 5z\"}" "{\"d\":\"day\"}"];
    "wallet's seed", Inside ["mnemonic" "seed phrase" "seed_phrase" "seedphrase" "seed words" "recovery phrase"
        "recovery_phrase" "secret phrase" "secret_phrase" "seed" "wallet"], mnemonic,
        hides ["mnemonic: \"§{w12}§\"" "the seed phrase is §{w24}§" "MNEMONIC=\"§{w15}§\"" "wallet_seed: §{w12}§"],
        leaves ["mnemonic: a word of twelve letters" "a mnemonic is a list of words that people write down on paper to keep"];

    // Addresses and headers.
    "password in an address", Literal ["://"], address,
        hides ["postgres://app:§pa:ss@wörd§@db.example:5432/x" "https://oauth2:§{a20}§@gitlab.example/x.git"],
        leaves ["http://127.0.0.1:8080/v1/chat@home and ssh://git@host:22/x git@github.com:a/b.git" "https://$USER:$PASS@x"];
    "authorization", Inside ["authorization"], authorization,
        hides ["Authorization: Bearer §{a20}§\r\nx" "authorization: Basic §dXNlcjpwYXNzd29yZA==§" "-H 'Authorization: §{a12}§'"
            "\"Authorization\": \"Bearer §{a20}§\"," "Authorization: AWS4-HMAC-SHA256 §Credential=AB/2/us/s3, Signature=00ff§"],
        leaves ["authorization of users is a bearer of news; Authorization: required" "Authorization: Bearer <token>"
            "headers['Authorization'] = authorization_header"];
    "authorization", Word ["bearer "], bearer, hides ["use bearer §{a20}§ please"], leaves ["a bearer of internationalisation"];
    "cookie", Word ["cookie:"], cookie,
        hides ["Cookie: §session=abcdef; id=2§\nx" "Set-Cookie: §connect.sid={a32}; Path=/; HttpOnly§" "cookie: §k={a32}§"],
        leaves ["Cookie: a small biscuit" "Set-Cookie: theme=dark" "Set-Cookie: lang=en-GB; Path=/; Max-Age=31536000"
            "Cookie: theme=dark; sidebar=open" "Set-Cookie: a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT"];
    "signature", Inside ["&sig=" "?sig=" "x-amz-signature=" "x-goog-signature="], |t, s, a| match run(t, s, a, in_query, 20) {
            Seen::Hide(range) => Seen::Hide(a..range.end),
            seen => seen,
        },
        hides ["x?sv=1&sig=§{a30}§&x"], leaves ["?sig=abc"];

    // Names that get a value.
    "password", Inside ["password" "passwd" "passphrase" "_pass" "client_secret" "client-secret" "clientsecret"], strong,
        hides ["PASSWORD=§hunter§" "export DB_PASSWORD='§correct horse 9§'" "{\"password\": \"§hunter§\"}"
            "{\\\"password\\\": \\\"§hunter§\\\"}" "  password: §hunter2§\n" "password = §Hunter2§" "DB_PASS=§hunter§;x"
            "mysql --password=§hunter§ -u root" "client_secret => '§{a16}§'" "jdbc:mysql://db/x?user=a&password=§hunter§&b=c"],
        leaves ["the password is kept by pass; set password_file=/run/x" "Password: enter your password"
            "password=$PASSWORD password=<password> password=your-password password=********"
            "if password == other { return Password::new(x) }" "login as root password follows" "password = var.db_password"];
    "password", Word ["pwd"], pwd,
        hides ["Server=x;Uid=sa;Pwd=§hunter§;"], leaves ["PWD=/home/me/src OLDPWD=/home/me"];
    "password", Word ["psk" "wpa_psk"], strong,
        hides ["network={\n    psk=\"§hunter22§\"\n}" "[wifi-security]\nkey-mgmt=wpa-psk\npsk=§hunter22§"], leaves ["psk is short" "key-mgmt=wpa-psk\n"];
    "password", Word ["<password>" "<passwd>" "<passphrase>" "<secret>" "<token>" "<apikey>"], element,
        hides ["<username>ci</username><password>§hunter§</password>"],
        leaves ["password: <password>" "<password>${env.PASS}</password>" "pass <token> or <secret> here"];
    "secret", Word ["define("], define,
        hides ["define('DB_PASSWORD', '§hunter22§');" "define( 'AUTH_KEY', '§{a20} #k${a20}§' );"], leaves ["define('WP_DEBUG', false);" "#define(x)"];
    "secret", Inside [
        "token" "secret" "credential" "credentials" "api_key" "api-key" "apikey" "access_key" "access-key" "accesskey"
        "secret_key" "secret-key" "secretkey" "secret_key_base" "private_key" "private-key" "privatekey" "private_key_id"
        "account_key" "accountkey" "auth_key" "authkey" "encryption_key" "encryption-key" "encryptionkey" "encrypt_key"
        "signing_key" "signing-key" "signingkey" "master_key" "master-key" "masterkey" "session_key" "sessionkey"
        "cookie_key" "hmac_key" "hmackey" "cipher_key" "crypto_key" "aes_key" "aeskey" "jwt_key" "jwtkey" "app_key" "appkey"
        "admin_key" "adminkey" "service_key" "service_role_key" "license_key" "licensekey" "deploy_key" "webhook_key"
        "shared_key" "sharedkey" "presharedkey" "pre_shared_key" "storage_key"], weak,
        hides ["aws_secret_access_key = §{a40}§\n" "API_KEY=§{a16}§" "x-api-key: §{a16}§" "https://x/?api_key=§{a16}§&y=1"
            "refresh_token: \"§{a16}§\"" "SECRET_KEY_BASE=\"§{h128}§\"" "ENCRYPTION_KEY=§{h64}§" "RAILS_MASTER_KEY=§{h32}§"
            "jwtSecret = []byte(\"§{a24}§\")" "signingKey := []byte(`§{a24}§`)" "app.config[\"SECRET_KEY\"] = b'§{a24}§'"
            "APP_KEY=§base64:{a43}=§" "AccountKey=§{a43}==§;End"],
        leaves ["A token: a piece of a word. token budget: 24000, max_tokens=4096 tokens=12345678"
            "token=\"$(cat token)\" api_key=${KEY} secret={{ secret }}" "let token = next_token(input); let secret = read_secret(path);"
            "secret: the art of doing nothing" "api_key=your-api-key-123" "cache_key={h40}" "public_key: {h64}"
            "aws_secret_access_key = wJalrXUtnFEMIEXAMPLEKEY1" "hash := sum([]byte(\"hello world\"))"
            "encrypt_key: PaddedBlockEncryptingKey," "[`SigningKey`]: crate::crypto::signer::SigningKey"];
    "secret", Inside ["\"auth\"" "_auth" "identitytoken"], encoded_value,
        hides ["{\"auths\":{\"x\":{\"auth\":\"§dXNlcjpodW50ZXI=§\"}}}" "//r.example/:_auth = \"§{b28}=§\"" "_auth=§dXNlcjpodW50ZXI=§"],
        leaves ["\"auth\": \"basic\"" "\"auth\": {\"type\": \"bearer\"}" "_auth=${NPM_AUTH}" "use_auth=true"];

    // Options, and files of lines.
    "password", Literal ["--password " "--passwd " "--passphrase " "sshpass -p" "-passin pass:" "-passout pass:" "-pass pass:"],
        strong_option,
        hides ["mysql --password §hunter§ -u root" "sshpass -p §hunter§ ssh x" "openssl rsa -passin pass:§hunter§ -in k"],
        leaves ["--password $PASS" "--password -"];
    "secret", Literal ["--token " "--api-key " "--secret " "--secret-key " "--access-token " "--authkey " "--auth-token "
        "vault login "], weak_option,
        hides ["--token §{a16}§" "vault login §s.{a24}§"], leaves ["--token <token>" "vault login -method=oidc"];
    "password", Exact ["curl "], |t, _, a| command(t, a, &[b" -u ", b" --user ", b" --proxy-user "], Some(b':')),
        hides ["curl -sS -u me:§hunter§ https://x" "curl -u 'me:§hunter§' https://x"],
        leaves ["docker run -u 1000:1000 x; rsync -u a:b c" "curl -u \"$USER:$PASS\" https://x" "curl -u me https://x"];
    "password", Exact ["mysql " "mysqldump " "mysqladmin " "mysqlimport " "mariadb " "mariadb-dump "],
        |t, _, a| command(t, a, &[b" -p"], None),
        hides ["mysql -u root -p§hunter§ shop" "mysqldump -uadmin -p'§hunter§' shop >d.sql"],
        leaves ["mysql -u root -p shop" "mysql -P 3307 -h db" "mysql -p$PASS" "mysql -e x | grep -pe"];
    "password", Exact ["docker login " "podman login " "buildah login " "helm registry login " "oc login " "az login "],
        |t, _, a| command(t, a, &[b" -p "], None),
        hides ["docker login r.example -u ci -p §hunter§"], leaves ["docker run -p 80:80 x" "docker login r.example" "docker login -p $P"];
    "password", Exact ["redis-cli "], |t, _, a| command(t, a, &[b" -a ", b" --pass "], None),
        hides ["redis-cli -h cache -a §hunter§ ping"], leaves ["redis-cli -h cache ping"];
    "password", Exact ["ldapsearch " "ldapadd " "ldapmodify " "ldapwhoami " "ldappasswd "],
        |t, _, a| command(t, a, &[b" -w "], None),
        hides ["ldapsearch -D cn=a -w §hunter§ -b dc=x"], leaves ["ldapsearch -x -W"];
    "password", Exact ["smbclient "], |t, _, a| command(t, a, &[b" -U ", b" --user "], Some(b'%')),
        hides ["smbclient //srv/x -U 'me%§hunter§'"], leaves ["smbclient //srv/x -U me"];
    "password", Exact ["openssl enc "], |t, _, a| command(t, a, &[b" -k ", b" -K "], None),
        hides ["openssl enc -aes-256-cbc -k §hunter§ -in a"], leaves ["openssl enc -d -in a"];
    "password", Exact ["echo " "printf "], sudo,
        hides ["echo '§hunter§' | sudo -S apt update"], leaves ["echo \"$P\" | sudo -S true" "echo hello | sudo tee x" "echo a"];
    "password", Exact ["login "], netrc, hides ["machine x login me password §hunter§\n" "machine x\n  login me\n  password §hunter§\n"],
        leaves ["login shell" "login as root password follows"];
    "password", Literal [":5432:" ":*:"], pgpass,
        hides ["db.example.org:5432:app:me:§hunter§" "*:*:*:postgres:§hunt3r§"],
        leaves ["- \"127.0.0.1:5432:5432\"" "daemon:*:19000:0:99999:7:::" "localhost:5432:postgres is up" "a:*:b:c"];
}

/// Every anchor with its rule.
pub(super) fn anchors() -> impl Iterator<Item = (&'static Rule, &'static str)> {
    RULES.iter().flat_map(|rule| rule.anchors.iter().map(move |anchor| (rule, *anchor)))
}

impl Place {
    /// Returns whether the letters of an anchor count whatever their case.
    pub fn is_folded(self) -> bool {
        matches!(self, Self::Word | Self::Inside)
    }

    /// Returns whether no word may go on in front of an anchor.
    pub fn is_at_edge(self) -> bool {
        matches!(self, Self::Word | Self::Exact)
    }
}
