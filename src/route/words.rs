//! The words that routing knows: English function words, commands, subcommands, words addressed to a person. Tables in byte order
//! with binary search; it must not know any weight.

use std::cmp::Ordering;

/// The classes of function words, one bit each, in the order of [`CLASS_LETTERS`].
pub(super) mod class {
    /// `a`, `the`, `my`.
    pub(in crate::route) const DETERMINER: u16 = 1;
    /// `i`, `it`, `them`.
    pub(in crate::route) const PRONOUN: u16 = 1 << 1;
    /// A question word.
    pub(in crate::route) const QUESTION: u16 = 1 << 2;
    /// `is`, `did`, `can`.
    pub(in crate::route) const AUXILIARY: u16 = 1 << 3;
    /// An auxiliary, or a verb about an effect: `is`, `fails`.
    pub(in crate::route) const TELLS: u16 = AUXILIARY | 1 << 7;
    /// Hardly ever an argument: `the`, `please`, `because`.
    pub(in crate::route) const STRONG: u16 = 1 << 6;
    /// A short word of several languages that is also a name: `e`, `o`, `da`.
    pub(in crate::route) const SHORT: u16 = 1 << 8;
}

/// Determiner, pronoun, question word, auxiliary, preposition (`r`), conjunction, strong, a verb about an effect (`v`), short
/// (`x`).
const CLASS_LETTERS: &[u8] = b"dpqarcsvx";

/// The traits of a command, one bit each.
pub(super) mod command {
    /// Its name is an English word with which a request may begin.
    pub(in crate::route) const ENGLISH: u16 = 1;
    /// Can change or end something, or pass its words on.
    pub(in crate::route) const CHANGES: u16 = 1 << 1;
    /// Takes any text, so its words say nothing.
    pub(in crate::route) const TEXT: u16 = 1 << 2;
    /// Its first argument is a pattern or a topic.
    pub(in crate::route) const PATTERN: u16 = 1 << 3;
    /// Runs the command after it.
    pub(in crate::route) const RUNS: u16 = 1 << 4;
    /// A subcommand follows.
    pub(in crate::route) const SUBCOMMANDS: u16 = 1 << 5;
    /// A tool that people have on other machines.
    pub(in crate::route) const TOOL: u16 = 1 << 6;
    /// Takes names of files.
    pub(in crate::route) const NAMES: u16 = 1 << 7;
}

/// The longest word in any table, in bytes; a longer one is in none.
const WORD_BYTES_MAX: usize = 20;

/// The classes of an English word in any case; 0 for any other word. Punctuation must have been removed.
pub(super) fn function(word: &str) -> u16 {
    in_lower_case(word, |word| find(&FUNCTION, word)).map_or(0, |letters| bits(letters, CLASS_LETTERS))
}

/// The classes of a word in a script without spaces, by the characters in it: a question, a request, a particle that no name has.
pub(super) fn foreign_function(word: &str) -> u16 {
    let asks = word.starts_with(['请', '請'])
        || word.ends_with(['了', '吧', '呢', '啊'])
        || FOREIGN.iter().any(|part| word.contains(part));
    if asks { bits("qs", CLASS_LETTERS) } else { 0 }
}

/// The traits of a command; 0 if none is known.
pub(super) fn command(word: &str) -> u16 {
    find(&COMMANDS, word.as_bytes()).map_or(0, |letters| bits(letters, b"emtgrsin"))
}

/// Returns whether a word follows commands that have subcommands.
pub(super) fn is_subcommand(word: &str) -> bool {
    find(&SUBCOMMANDS, word.as_bytes()).is_some()
}

/// Returns whether a tool has a subcommand of this name; `None` if the tool's subcommands aren't known.
pub(super) fn has_subcommand(tool: &str, word: &str) -> Option<bool> {
    let row = TOOLS.binary_search_by(|row| compare_to(row.as_bytes(), tool.as_bytes(), b' ')).ok()?;
    let mut rest = &TOOLS[row].as_bytes()[tool.len()..];
    while let Some((_, names)) = rest.split_first() {
        let behind = names.strip_prefix(word.as_bytes());
        if behind.is_some_and(|behind| matches!(behind.first(), None | Some(b' '))) {
            return Some(true);
        }
        let end = memchr::memchr(b' ', names).unwrap_or(names.len());
        // The names are sorted.
        if names[..end] > *word.as_bytes() {
            break;
        }
        rest = &names[end..];
    }
    Some(false)
}

/// Returns whether a word is a proper prefix of a subcommand.
pub(super) fn begins_subcommand(word: &str) -> bool {
    let at = SUBCOMMANDS.partition_point(|known| *known <= word);
    SUBCOMMANDS.get(at).is_some_and(|known| known.starts_with(word))
}

/// Returns whether a word alone is meant for a person, not for a shell.
pub(super) fn is_chat(word: &str) -> bool {
    in_lower_case(word, |word| find(&CHAT, word)).is_some()
}

/// Returns whether a word is part of an answer to a question that was just asked.
pub(super) fn is_reply(word: &str) -> bool {
    in_lower_case(word, |word| find(&REPLIES, word)).is_some()
        || (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The often typed word that is one typing error away from `typed`: two letters swapped, one missing, one doubled; with `any`
/// also one changed or added.
pub(super) fn slip_of_command(typed: &str, any: bool) -> Option<&'static str> {
    slip_in(&OFTEN, typed, any)
}

/// The subcommand that is one typing error away from `typed`.
pub(super) fn slip_of_subcommand(typed: &str) -> Option<&'static str> {
    slip_in(&SUBCOMMANDS, typed, false)
}

fn slip_in(table: &[&'static str], typed: &str, any: bool) -> Option<&'static str> {
    // Words of two letters are one typing error away from half of all short words.
    if typed.len() < 3 || typed.len() > WORD_BYTES_MAX || !typed.is_ascii() {
        return None;
    }
    let typed = typed.as_bytes();
    let near = |meant: &&&str| {
        let meant = meant.as_bytes();
        // Most words differ in both of their first letters, and need no closer comparison.
        let may = meant.len() >= 2 && (typed[0] == meant[0] || typed[0] == meant[1] || any && typed[1] == meant[1]);
        may && is_one_slip(typed, meant, any)
    };
    table.iter().find(near).copied()
}

/// Returns whether `typed` is `meant` with one typing error.
pub(super) fn is_one_slip(typed: &[u8], meant: &[u8], any: bool) -> bool {
    if typed.len().abs_diff(meant.len()) > 1 || typed == meant {
        return false;
    }
    let same = typed.iter().zip(meant).take_while(|(a, b)| a == b).count();
    let before = if same > 0 { typed[same - 1] } else { 0 };
    let (typed, meant) = (&typed[same..], &meant[same..]);
    match typed.len().cmp(&meant.len()) {
        Ordering::Equal => {
            let swapped = typed.len() >= 2 && typed[0] == meant[1] && typed[1] == meant[0] && typed[2..] == meant[2..];
            swapped || any && typed[1..] == meant[1..]
        }
        // A word of two letters with one missing would be unrecognisable.
        Ordering::Less => *typed == meant[1..] && same + meant.len() > 3,
        // An extra letter counts if it doubles the previous one; otherwise `stop` would be `top` and `many` `man`.
        Ordering::Greater => same > 0 && typed[1..] == *meant && (typed[0] == before || any),
    }
}

fn in_lower_case<T>(word: &str, look: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut buffer = [0_u8; WORD_BYTES_MAX];
    let lower = buffer.get_mut(..word.len())?;
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    look(lower)
}

/// Returns the text after `=` in the row of `word`; `None` if the row has none.
fn find(table: &[&'static str], word: &[u8]) -> Option<&'static str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let index = table.binary_search_by(|row| compare(row.as_bytes(), word)).ok()?;
    Some(table[index].get(word.len()..).unwrap_or_default())
}

/// Compares the word of a row, up to its `=`, with `word`.
fn compare(row: &[u8], word: &[u8]) -> Ordering {
    compare_to(row, word, b'=')
}

/// Compares likewise if another byte than `=` ends the word.
fn compare_to(row: &[u8], word: &[u8], stop: u8) -> Ordering {
    for (at, byte) in word.iter().enumerate() {
        match row.get(at) {
            None => return Ordering::Less,
            Some(other) if *other == stop => return Ordering::Less,
            Some(other) if other == byte => {}
            Some(other) => return other.cmp(byte),
        }
    }
    if row.get(word.len()).is_none_or(|byte| *byte == stop) { Ordering::Equal } else { Ordering::Greater }
}

/// The bits of some letters, by their positions in `alphabet`.
fn bits(letters: &str, alphabet: &[u8]) -> u16 {
    letters.bytes().filter_map(|letter| alphabet.iter().position(|it| *it == letter)).fold(0, |all, at| all | 1 << at)
}

/// Number of pieces that `separator` makes of a text.
const fn count(text: &str, separator: u8) -> usize {
    let bytes = text.as_bytes();
    let (mut words, mut at) = (1, 0);
    while at < bytes.len() {
        words += (bytes[at] == separator) as usize;
        at += 1;
    }
    words
}

const fn split<const N: usize>(text: &'static str, separator: u8) -> [&'static str; N] {
    let mut out = [""; N];
    let (mut rest, mut word, mut at) = (text, 0, 0);
    while at < rest.len() {
        if rest.as_bytes()[at] == separator {
            let (before, after) = rest.split_at(at);
            out[word] = before;
            word += 1;
            rest = after.split_at(1).1;
            at = 0;
        } else {
            at += 1;
        }
    }
    out[word] = rest;
    out
}

/// English function words and their classes, and the commonest of a few other languages.
const FUNCTION_TEXT: &str = "\
    a=d about=r across=r actually=s after=r again=s against=r all=d almost=s already=s also=s although=cs always=s \
    am=a among=r an=ds and=c another=d any=d anymore=s anyone=ps anything=ps anyway=s are=a aren't=as arent=as as=r \
    asks=v at=r au=r auf=r aus=r aux=r av=r avec=r be=a became=v because=cs becomes=v been=as before=r bei=r being=a \
    between=r bitte=s both=d breaks=v broke=v broken=v but=c by=r came=v can=a can't=as cannot=a cant=as changed=v \
    changes=v com=r comment=q como=q complained=v complains=v con=r confused=v confusing=v correctly=s could=as \
    couldn't=as crashed=v crashes=v cómo=q da=x danke=s dans=r das=d de=r del=r dem=d den=d der=d des=d di=x did=as \
    didn't=as didnt=as die=d dies=v dlaczego=q do=a does=as doesn't=as doesnt=as don't=as dont=as down=r du=pr \
    during=r e=x each=d eats=v een=d ein=d eine=d einen=d either=d el=d elle=p else=c em=x en=x enough=d er=p es=a \
    est=a et=c eu=p ever=s every=d everyone=ps everything=p exists=v exited=v exits=v explained=v failed=v failing=v \
    fails=v favor=s few=d fills=v for=r from=r für=r gets=v gives=v gli=d goes=v gonna=a got=v had=a hangs=v \
    happened=v happens=v has=a hasn't=as have=a haven't=as having=a he=p her=ds here=p het=d him=p his=ds hoe=q how=q \
    hung=v hur=q i=p i'd=as i'll=as i'm=as i've=as ich=p if=c ignores=v ik=p il=x im=a in=r inside=r installed=v \
    instead=s into=rs is=a isn't=as isnt=as ist=a it=p it's=as its=d itself=p jag=p jak=q je=p just=s kann=a keeps=v \
    la=d las=d le=d les=d let's=as like=r lo=d looks=v los=d loses=v many=d matters=v may=a maybe=s me=ps means=v \
    met=r mi=p mich=p might=a mij=p mine=p mir=p missing=v mit=r moi=p most=d much=d must=a my=ds myself=ps na=x \
    nach=r need=a needs=av neither=d nel=r nella=r never=s next=d nicht=a nie=a no=d nobody=p nor=c not=a nothing=p \
    nous=p o=x och=c oder=c of=r off=r og=c on=r one=p ones=p only=s onto=r op=x or=c other=d ou=c our=ds out=r \
    outside=r over=r para=r pas=a per=r perché=q please=s pls=s plz=s por=rs porque=q pour=r pourquoi=q prints=v \
    properly=s på=r que=q quel=q quelle=q quickly=s qué=q really=s refused=v refuses=v reports=v returns=v running=v \
    runs=v said=v same=d says=v seems=v sees=v several=d shall=a she=p should=as shouldn't=as shows=v sie=p simply=s \
    since=r sind=a slow=v so=c some=d someone=ps something=ps son=a sont=a still=s stopped=v stops=v stuck=v su=x \
    such=d sur=r são=a takes=v than=rs thanks=s that=d that's=as the=ds their=ds them=ps then=c there=p there's=a \
    these=d they=p they're=as this=d those=d though=c through=r thrown=v throws=v ti=p to=r too=s took=v tu=p un=x \
    una=d und=c under=r une=d unless=c until=r up=r us=ps using=rs van=r very=s via=r von=r voor=r vs=cs w=x waarom=q \
    wanna=a wants=v warum=q was=as wasn't=as we=p we're=as weird=v welche=q went=v were=as weren't=as what=q what's=as \
    whats=q when=q where=q whether=qs which=dq while=c who=q whom=q whose=dq why=q wie=q will=a wir=p wird=a with=r \
    within=r without=rs wo=q won't=as wont=as worked=v working=v works=v would=as wouldn't=as wrong=v y=x yet=s yo=p \
    you=p you'll=a you're=as your=ds yours=p yourself=ps z=x zijn=a zu=r är=a";
static FUNCTION: [&str; count(FUNCTION_TEXT, b' ')] = split(FUNCTION_TEXT, b' ');

/// Characters that occur only in sentences, in scripts without spaces between words: Chinese, Japanese, Korean.
const FOREIGN: [&str; 22] = [
    "什么",
    "什麼",
    "怎么",
    "怎麼",
    "为什",
    "為什",
    "如何",
    "吗",
    "嗎",
    "怎样",
    "を",
    "です",
    "ます",
    "ください",
    "なぜ",
    "って何",
    "어떻게",
    "방법",
    "무엇",
    "왜",
    "하세요",
    "해줘",
];

/// Commands with their traits.
const COMMANDS_TEXT: &str = "\
    .=mn 7z=i ab=i accept=e ack=gi activate=e adapt=e adb=i add=e adjust=e ag=gi age=i alacritty=i alias=e align=e \
    allow=e alter=e analyse=e analyze=e animate=e ansible=ims ansible-galaxy=i ansible-playbook=i answer=e apk=is \
    append=e apply=e apropos=gi apt=ims apt-cache=s apt-get=ims aptitude=ims arch=e aria2c=i arp=i arrange=e \
    artisan=s as=en asciinema=i asdf=is ask=e assign=e assume=e at=em attach=e atuin=i avoid=e awk=e aws=ims az=ims \
    b4=i backup=emn balance=e banner=et bash=emn bat=in batcat=i batch=em bazel=is bc=ei begin=e benchmark=e bind=e \
    blender=i block=e bmon=i book=e borg=i bower=i break=e brew=ims bring=e broot=i browse=es btm=i btop=i build=e \
    builtin=er bun=is bundle=is bundler=i busctl=s buy=e bzip2=i bzr=i cabal=is cache=e caddy=i cal=e calculate=e \
    call=e caller=e cancel=e cargo=ims cargo-watch=i case=e cat=en cc=n ccache=i cd=en cf=i change=e charge=e chat=e \
    check=e chezmoi=i chgrp=mn chmod=mn choco=s choose=e chown=mn chsh=i circleci=i cksum=n clang=in clang-format=i \
    clang-tidy=i clarify=e classify=e claude=t clean=e cleanup=e clear=e clojure=i clone=e close=e cmake=ims \
    cmatrix=i cmp=n code=in codex=it col=e collect=e colorize=e column=en combine=e comm=n command=er comment=e \
    commit=e compare=en compile=e complete=e compose=e composer=is compress=e compute=e conan=is concatenate=e \
    conda=is configure=e confirm=e connect=e consider=e consolidate=e construct=e consul=i continue=e convert=emn \
    copy=e coqc=i coredumpctl=s correct=e count=e cowsay=t cowthink=t cp=emn cpanm=i cpupower=i crack=e crane=i \
    crawl=e create=e createdb=s cron=e crontab=em crop=e crystal=i ctags=i ctr=i curl=i curlie=i cut=en cvs=ei \
    cwebp=i dagger=i dart=i dash=m date=e dbt=i dc=s dd=mn debug=e decode=e decompress=e decrease=e decrypt=e \
    define=e delete=e delta=i demonstrate=e deno=is deploy=em describe=e deserialize=e design=e detach=e detect=e \
    determine=e develop=e devenv=i df=e diagnose=e diff=en dig=ei dir=en direnv=is disable=e discuss=e display=en \
    dive=i dmesg=i dnf=ims do=e doas=mr docker=ims docker-compose=is docker-machine=i doctl=is document=e dolt=i \
    doppler=i dotnet=is double=e download=e dpkg=m draft=e draw=e drop=e du=n duf=i dump=e dust=i earthly=is echo=t \
    ed=n edit=e egrep=g elaborate=e eliminate=e elixir=i elm=i emacs=in embed=e emerge=is enable=e encode=e \
    encrypt=e ensure=e enter=e enumerate=e env=er erase=e erl=i esbuild=i eslint=i espeak=t estimate=e etcdctl=i \
    eval=em evaluate=e ex=en exa=i examine=e exec=emr execute=e exiftool=i exit=em expand=en explain=e explore=e \
    export=e expr=e extend=e extract=emn eza=i factor=e fake=e false=e fc=e fd=i fdfind=i fdisk=m fetch=e ffmpeg=i \
    ffprobe=i fg=e fgrep=g figlet=it file=en fill=e filter=e finalize=e find=emn finger=e finish=e firebase=i \
    firefox=i fish=i fish_config=i fix=em flake8=i flash=e flatpak=ims flatten=e flip=e flush=e flutter=is fly=is \
    flyctl=i fold=en for=e force=e forget=e fork=e format=em forward=e fossil=is free=e freeze=e function=e fzf=i \
    games=e gcc=n gcloud=ims gdb=i gem=ims gemini=t generate=e get=e gh=ims ghc=i ghci=i gimp=i gist=i git=eims \
    git-lfs=i gitk=i give=e glab=is glances=i gleam=i go=eims godot=i gofmt=i golangci-lint=i gource=i gpg=is grab=e \
    gradle=is grafana-cli=i grep=eg groovy=i group=e groups=e grpcurl=i guess=e guix=i gunicorn=i gunzip=n gzip=n \
    hadolint=i halt=em handle=e hash=e hcloud=i head=en helix=i hello=e helm=ims helmfile=i help=eg heroku=is \
    hexyl=i hg=ims hide=e highlight=e history=e hledger=i host=e hostnamectl=s htop=i http=i httpd=i httpie=i \
    https=i httrack=i hub=is hugo=i hx=i hyperfine=i ibmcloud=i id=e identify=en iex=i if=e iftop=i ignore=e \
    imagemagick=i implement=e import=emn improve=e in=e include=e increase=e incus=s indent=e info=eg init=m \
    initialize=e inkscape=i inline=e inotifywait=i insert=e inspect=e inspire=e install=emn integrate=e interpret=e \
    introduce=e invert=e investigate=e invoke=e ionic=i ionice=r iotop=i ip=s ipfs=i iptables=m ipython=i isolate=e \
    isort=i issue=e issues=e iterate=e jabba=i java=in javac=in jbang=i jekyll=i jest=i jira=i jj=is jobs=e join=en \
    journalctl=s jq=i jrnl=i jshell=i julia=i jump=en jupyter=i just=is k=s k3d=i k3s=i k6=i k9s=i kafkacat=i \
    kaggle=i kak=i kdenlive=i keep=e keybase=i kill=em killall=m kitty=i knife=i kotlin=i ksh=m ktlint=i kubeadm=i \
    kubectl=ims kubectx=i kubens=i kustomize=i l=n la=n label=e last=e launch=e lazydocker=i lazygit=i ld=en learn=e \
    lein=i leiningen=i lerna=i less=en let=e lf=i libreoffice=i link=en linkerd=i linode-cli=i lint=e list=e \
    listen=e ll=n lldb=i llm=it ln=mn lnav=i load=e local=e locale=e localize=e locate=eg lock=e logger=et login=e \
    loginctl=s logout=em lolcat=t look=en lower=e ls=en lsd=i lsof=i ltrace=r lua=i luarocks=i lvim=i lxc=is lynx=i \
    machinectl=s magick=i mail=em maintain=e make=ems man=eg manage=e mark=e mask=e match=e md5sum=n mdbook=i \
    mdcat=i measure=e meld=i merge=e meson=is message=e micro=i migrate=e minify=e minikube=is mise=is mitmproxy=i \
    mix=is mkcd=n mkdir=mn mkfs=m mlr=i mock=e modify=e mogrify=m mongo=im mongod=i mongosh=i monitor=e more=en \
    mosh=i mount=em move=e mpv=i msbuild=i multipass=is multiply=e mute=e mutt=i mv=emn mvn=is mycli=i mypy=i \
    mysql=im mysqladmin=s mysqldump=i name=e nano=in nasm=i navigate=e nc=i ncat=i ncdu=i neofetch=i neomutt=i \
    netcat=i nethogs=i netlify=i netstat=i networkctl=s newsboat=i nft=m ng=i nginx=i ngrok=i nice=er nim=i nimble=i \
    ninja=ims nix=is nix-build=i nix-env=i nix-shell=i nixos-rebuild=i nl=en nmap=i nmcli=is no=e node=emn nodemon=i \
    nohup=r nomad=i normalize=e note=et notify=e notify-send=t npm=ims npx=ims nslookup=i ntfy=i nu=i nuget=i \
    number=e nvidia-smi=i nvim=in nvm=is obtain=e ocaml=i octave=i ollama=is omit=e opam=i open=emn opencode=i \
    openssl=is optimise=e optimize=e order=e organise=e organize=e outline=e output=e overwrite=e pack=e packer=i \
    pacman=ims pandoc=i parallel=i parse=e parted=m paru=i pass=is passwd=m paste=en patch=emn patchelf=i pause=e \
    pdm=i perform=e perl=mn perlbrew=i pg_ctl=s pg_dump=i pg_restore=i pgcli=i pgrep=g php=is phpunit=i pick=e \
    ping=e pip=ims pip3=ims pipe=e pipenv=i pipx=is pkg=i pkill=gm place=e plan=e play=e please=er plot=e pm2=i \
    pnpm=ims pod=s podman=ims podman-compose=i poetry=is polish=e populate=e port=es post=e poweroff=m pr=e \
    pre-commit=i predict=e prefix=e prepare=e prepend=e preserve=e pretend=e prettier=i preview=e print=emn \
    printf=et process=e procs=i profile=e progress=i project=e propose=e protect=e prove=e provide=e proxychains=i \
    psql=im publish=e pueue=i pull=e pulumi=is puppet=i purge=e push=e pushd=n put=e pwgen=i pwsh=i py=i pyenv=is \
    pylint=i pytest=i python=emn python3=mn qemu=i qpdf=i qrencode=i query=e quit=e quote=e r=i rails=is raise=e \
    rake=i randomize=e ranger=ein rank=e rbenv=is rclone=i read=e rebase=e reboot=em rebuild=e recommend=e record=e \
    recover=e recreate=e red=e redirect=e redis-cli=ims redo=e reduce=e refactor=e reformat=e refresh=e register=e \
    reinstall=e reload=e remind=e remove=e rename=emn render=e repair=e repeat=e replace=em replicate=e report=e \
    request=e require=e reschedule=e reset=em resize=e resolve=e resolvectl=s restart=em restic=i retrieve=e retry=e \
    return=e reuse=e rev=en reverse=e revert=e review=e rewrite=e rg=gi ripgrep=i rm=emn rm-improved=i rmdir=mn \
    rotate=e round=e route=es rpm=i rspec=i rsync=mn rubocop=i ruby=mn ruff=i run=em rustc=in rustfmt=i rustup=ims \
    rye=i salt=i sar=i save=e say=et sbt=i scala=i scale=e scan=e schedule=e scoop=is scp=mn scrape=e screen=es \
    screenfetch=i script=e scroll=e sdk=i sdkman=is search=e secure=e sed=m see=en select=e send=em serve=e \
    serverless=i service=ems set=e setsid=r sftp=i sh=mn sha256sum=n share=e shellcheck=i shfmt=i shift=em shorten=e \
    show=e shred=emn shrink=e shuf=e shutdown=em silence=e simplify=e simulate=e size=en skaffold=is skip=e skopeo=i \
    slack=i sleep=e snap=ims socat=i solve=e sops=i sort=en source=emn spack=i specify=e spell=e split=en spotify=i \
    sqlite3=im sqlmap=i sqlx=i squash=e ssh=m stack=is stage=e starship=i start=em stash=e stat=en stdbuf=r stern=i \
    stop=em store=e stow=i strace=ir stream=e stress=i strings=en strip=en style=e su=m submit=e substitute=e \
    sudo=mr suggest=e sum=e summarise=e summarize=e supabase=i suppress=e surge=i suspend=e svn=ims swap=e swaymsg=i \
    swift=ems swiftc=i swiftlint=i switch=e sync=em syncthing=i systemctl=ms systemd-analyze=s tabs=e tac=en tail=en \
    tailscale=i talk=e tar=emn task=es tasks=e taskwarrior=i tcpdump=i tee=mn tell=e terminate=e terraform=ims \
    terragrunt=i test=e thefuck=i then=e throw=e tidy=e tig=i time=er timedatectl=s timeout=er times=e tldr=i \
    tlmgr=i tmux=is tmuxinator=is tmuxp=i todo=et tofu=i toggle=e toilet=t tokei=i tokenize=e top=e touch=emn tox=i \
    tr=e trace=e traceroute=i track=e train=e transcribe=e transfer=e transform=e translate=e transmission-cli=i \
    transpose=e trap=em tree=en tree-sitter=i trigger=e trim=e trivy=i true=e truffle=i truncate=em tsc=i tset=e \
    tsx=i tune=e turbo=i turn=e twine=i type=eg typst=i ufw=ms umount=m uncomment=e uncompress=e underline=e undo=em \
    uninstall=e uniq=en unlink=emn unlock=e unmount=e unpack=e unset=em until=e unzip=emn up=em update=em upgrade=e \
    upload=e uptime=e use=e useradd=m userdel=m usermod=m users=e uv=is uvicorn=i uvx=i v=n vagrant=ims valgrind=i \
    validate=e vault=i vdir=n venv=e vercel=is verify=e vi=ein view=en vim=ein virsh=ims virtualenv=i visual=e \
    visualize=e vite=i vlc=i volta=i vote=e vscode=i vue=i w=e w3m=i wails=i wait=e walk=e wall=emt warn=e \
    wasm-pack=i watch=er watchexec=i wc=n weather=e webpack=i weechat=i wg=i wg-quick=i wget=i whatis=eg whereis=eg \
    which=eg while=e who=e winget=is wireshark=i wrangler=i wrap=e write=emt wrk=i xargs=emr xclip=i xdg-open=n \
    xdotool=i xh=i xkill=m xrandr=i xsel=i yadm=i yapf=i yarn=ims yay=i yazi=i yes=e youtube-dl=i yq=i yt-dlp=i \
    yum=ims z=i zathura=i zed=i zellij=is zfs=i zig=i zip=emn zola=i zoxide=i zpool=i zsh=mn zypper=is";
static COMMANDS: [&str; count(COMMANDS_TEXT, b' ')] = split(COMMANDS_TEXT, b' ');

/// Words that follow a command with subcommands.
const SUBCOMMANDS_TEXT: &str = "\
    abort accept activate add add-on addr addrlabel adduser alias all analyze annotate apply archive attach \
    attach-session audit auth autoclean autoremove available backup balance bench benchmark bisect blame boot branch \
    branches browse build builds bump bundle cache cancel cat channel chat check checkout cherry cherry-pick ci clean \
    cleanup clear clone close cluster commit commits compile completion compose config configure connect console \
    container containers context convert cordon cp create daemon-reload db debug dedupe default delete demo deploy \
    deployment deployments deps describe destroy detach dev dev-server develop devices diff difftool disable dist \
    dist-upgrade dlx docs doctor down download drain duplicates edit enable ensurepath env environment eval events \
    exec explain export extract fetch file files fix flush fmt force-reload force-unlock foreach fork format freeze \
    fsck full-upgrade gc gen generate generate-completion get get-url graph grep gui help hide history hold host hub \
    id image images import index info init inspect install install-completion instances invoke is-active is-enabled \
    issue issues job jobs kernel key keys kill kill-server kill-session label link lint list list-sessions list-units \
    list-upgradable load local locale log login logout logs ls maddress maintenance mangle mark member merge \
    mergetool metadata migrate mod model models module modules monitor mount move mr mroute mv namespace neigh netns \
    network networks new new-session new-window node nodes notes open order org outdated output override owner pack \
    package packages patch pause ping pkg plan plugin plugins pods pop port ports pr prefix print proc profile \
    project projects promote providers prune ps publish pull purge push python query rebase rebuild recipe reconcile \
    reflog refresh register reinstall release releases reload remote remove rename render repair repl replace repo \
    report request rerere reset resolve restart restore results resume revert review rm rmi role rollback rollout \
    root rotate route rule run runs save scale scan schema script search secret secrets select self self-update \
    send-keys serve server service services session set set-default set-url setup shell shelve shortlog show \
    show-branch show-ref showmanual sign site snapshot sort source sources sparse-checkout split-window squash stack \
    stage star start start-server stash stat state stats status stop store submodule subtree sum suspend swarm switch \
    sync system tag tags taint target task tasks team template test tests tidy token tool toolchain top trace track \
    tree tunnel type uncordon undo unhold uninstall unlink unmask unpack unpause unpublish unregister unset unshelve \
    unstash untaint up update upgrade usage use user users validate var vendor verify version versions vet view \
    volume volumes wait watch whoami why work workflow workload workspace worktree world";
static SUBCOMMANDS: [&str; count(SUBCOMMANDS_TEXT, b' ')] = split(SUBCOMMANDS_TEXT, b' ');

/// Tools and their subcommands, a line each.
const TOOLS_TEXT: &str = include_str!("../../config/route/subcommands.txt").trim_ascii_end();
static TOOLS: [&str; count(TOOLS_TEXT, b'\n')] = split(TOOLS_TEXT, b'\n');

/// Words addressed to a person, alone on a line.
const CHAT_TEXT: &str = "\
    abort absolutely actually adios again agreed alright amazing another anything appreciated awesome bitte both \
    bravo bye bye-bye cancel cheers ciao continue cool correct danke definitely done either elaborate everything \
    exactly excellent explain farewell fine first goodbye gracias grazie great haha hallo he hello help hey hi hm hmm \
    hola how huh i indeed interesting it ja last later lol longer maybe me merci nah nay neat nein never nevermind \
    next nice no nochmal non none nope nothing obrigado oh ok okay oops oui perfect please porque pourquoi proceed \
    qué really repeat retry revert right same second she shorter si sigue simplify skip so something sorry stop \
    summarise summarize sure sí ta thanks thankyou that them there these they third this those thx translate tschüss \
    uh um undo us wait warum wat we weiter what whatever when where who whoa why wieso wow wrong wtf y yeah yep yes \
    yikes yo you yup да как нет почему спасибо что";
static CHAT: [&str; count(CHAT_TEXT, b' ')] = split(CHAT_TEXT, b' ');

/// The words of an answer to a question.
const REPLIES_TEXT: &str = "\
    a absolutely again agreed ahead all allow alright approve approved b both c cancel confirm continue correct \
    course definitely deny do don't done either exactly fine first for go good great hmm it ja last later less maybe \
    me more n nah nein neither never next nice no non none nope not now of off ok okay one option or oui perfect \
    please proceed reject right run second si skip sounds stop sure sí thank thanks that the them then these third \
    this those three true try two wait whatever wrong y yeah yep yes you да нет いいえ はい 不 好 是";
static REPLIES: [&str; count(REPLIES_TEXT, b' ')] = split(REPLIES_TEXT, b' ');

/// Words that are typed often, and so mistyped.
const OFTEN_TEXT: &str = "\
    apt apt-get awk bash brew cargo cat chmod chown clear code cp curl date df diff docker du echo exit export find \
    git go grep head history htop java kill kubectl less ls make man mkdir more mount mv nano node npm nvim pip pip3 \
    ps pwd python python3 reboot rm rsync ruby scp sed sleep sort ssh sudo systemctl tail tar tmux top touch uname \
    unzip vi vim wc wget which yarn zip";
static OFTEN: [&str; count(OFTEN_TEXT, b' ')] = split(OFTEN_TEXT, b' ');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_order_so_that_the_search_finds_every_row() {
        let name = |row: &'static str| row.split('=').next().unwrap();
        for table in [&FUNCTION[..], &COMMANDS, &SUBCOMMANDS, &CHAT, &REPLIES, &OFTEN] {
            for row in table {
                assert!(find(table, name(row).as_bytes()).is_some() && name(row).len() <= WORD_BYTES_MAX, "{row}");
            }
            assert!(table.windows(2).all(|pair| name(pair[0]) < name(pair[1])));
        }
        assert!(FUNCTION.iter().all(|row| function(name(row)) != 0));
        assert!(COMMANDS.iter().all(|row| command(name(row)) != 0));
        assert_eq!(function("The"), 1 | class::STRONG);
        assert_eq!(command("git") & command::SUBCOMMANDS, command::SUBCOMMANDS);
    }

    #[test]
    fn tools_know_their_subcommands() {
        let cases = [
            ("docker", "buildx", Some(true)),
            ("docker", "wait", Some(true)),
            ("docker", "version", Some(true)),
            ("docker", "build", Some(true)),
            ("docker", "buil", Some(false)),
            ("docker", "frobnicate", Some(false)),
            ("ip", "a", Some(true)),
            ("gpg", "generate", Some(false)),
            ("ls", "docker", None),
            ("dock", "er", None),
        ];
        for (tool, word, known) in cases {
            assert_eq!(has_subcommand(tool, word), known, "{tool} {word}");
        }
        for row in TOOLS {
            let mut names = row.split(' ');
            let tool = names.next().unwrap();
            let names: Vec<&str> = names.collect();
            assert!(names.is_sorted_by(|a, b| a < b), "{tool}");
            assert!(names.iter().all(|name| has_subcommand(tool, name) == Some(true)), "{tool}");
        }
        assert!(TOOLS.is_sorted_by(|a, b| a.split(' ').next() < b.split(' ').next()));
    }

    #[test]
    fn sentence_words_are_recognised_in_scripts_without_spaces() {
        for word in ["是什么命令", "请解释", "失败了", "htopを起動", "되돌리는방법"] {
            assert_ne!(foreign_function(word) & class::STRONG, 0, "{word}");
        }
        for word in ["下载", "邀请函", "Документы", "写真", "사진"] {
            assert_eq!(foreign_function(word), 0, "{word}");
        }
    }

    #[test]
    fn a_slip_is_one_letter_off() {
        for (typed, meant) in
            [("gti", "git"), ("pyhton", "python"), ("mkae", "make"), ("dokcer", "docker"), ("exti", "exit")]
        {
            assert_eq!(slip_of_command(typed, false), Some(meant));
        }
        for word in ["finde", "stop", "many", "clean", "git", "remove", "", "größe"] {
            assert!(slip_of_command(word, false).is_none(), "{word}");
        }
        assert_eq!(slip_of_command("gut", true), Some("git"));
        assert_eq!(slip_of_subcommand("psuh"), Some("push"));
    }
}
