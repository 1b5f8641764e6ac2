// The frame of the console: sign-in, navigation, connection, keys.
import { render } from '../vendor/preact.js';
import { useEffect, useLayoutEffect, useRef, useState } from '../vendor/hooks.js';
import { renew, signIn, signOut } from './api.js';
import { GoTo } from './goto.js';
import { refresh } from './refresh.js';
import { get, onEvent, set, useStore, warn } from './store.js';
import { follow } from './stream.js';
import { html, visible } from './ui.js';
import { Home } from './screens/home.js';
import { Inbox } from './screens/inbox.js';
import { Run, Runs } from './screens/runs.js';
import { Session, Sessions } from './screens/session.js';
import { Timeline } from './screens/timeline.js';
import { Canvas } from './screens/canvas.js';
import { Memory } from './screens/memory.js';
import { Registry } from './screens/registry.js';
import { Safety } from './screens/safety.js';
import { Admin } from './screens/admin.js';

const SCREENS = [
  ['home', 'Home', Home, 'h'], ['inbox', 'Inbox', Inbox, 'i'], ['runs', 'Runs', Runs, 'r'],
  ['sessions', 'Sessions', Sessions, 'l'], ['canvas', 'Canvas', Canvas, 'c'], ['timeline', 'Timeline', Timeline, 't'], ['memory', 'Memory', Memory, 'm'],
  ['safety', 'Safety', Safety, 's'], ['registry', 'Registry', Registry, 'e'], ['admin', 'Admin', Admin, 'a'],
];
const decode = (part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};
const place = () => location.hash.replace(/^#\/?/, '').split('/').map(decode);
/** The code of a link that signs in. */
const linked = () => location.hash.match(/^#pair=([A-Za-z0-9-]+)$/)?.[1];
/** Why a code doesn't sign in. */
const refusal = (wrong) => (wrong.status === 401 ? 'This code is wrong, was used before, or is older than five minutes.'
  : wrong.status === 429 ? 'Too many wrong codes. Wait a minute.' : wrong.message);

function SignIn() {
  const field = useRef(null);
  const refused = useStore((it) => it.refused);
  const [wrong, fail] = useState(null);
  const error = wrong ?? refused;
  const [busy, work] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    work(true);
    fail(null);
    set({ refused: null });
    await signIn(field.current.value).catch((wrong) => fail(refusal(wrong)));
    work(false);
  };
  useEffect(() => { field.current.focus(); }, []);
  return html`<main><h1>Sign in to ReedClaw</h1>
    <p>In a terminal, <code>reedclaw gateway pair</code> prints a code. It holds five minutes, once.</p>
    <form onSubmit=${send}>
      <label for="code">Code</label>
      <input id="code" ref=${field} autocomplete="off" spellcheck=${false} required placeholder="XXXX-XXXX-XXXX" />
      <button class="main" disabled=${busy}>Sign in</button>
    </form>
    ${error ? html`<p class="bad" role="alert">${visible(error)}</p>` : null}
  </main>`;
}

function Connection() {
  const [connection, since] = [useStore((it) => it.connection), useStore((it) => it.since)];
  const tone = { live: 'good', offline: 'bad' }[connection] ?? 'warn';
  const sign = { live: '●', offline: '✕' }[connection] ?? '◌';
  const text = connection === 'offline' && since ? `offline since ${new Date(since).toLocaleTimeString()}` : connection;
  return html`<span class=${`badge ${tone}`} role="status" id="connection">${sign} ${text}</span>`;
}

function Help({ close }) {
  const [box, heading] = [useRef(null), useRef(null)];
  // From its beginning: a dialog gives the focus to its first button, which is at the end.
  useEffect(() => { box.current.showModal(); heading.current.focus(); }, []);
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="help">
    <h2 id="help" tabindex="-1" ref=${heading}>Keys</h2>
    <table><tbody>
      ${SCREENS.map(([, name, , key]) => html`<tr><th scope="row"><kbd>g</kbd> <kbd>${key}</kbd></th><td>${name}</td></tr>`)}
      <tr><th scope="row"><kbd>j</kbd> <kbd>k</kbd></th><td>next and previous entry</td></tr>
      <tr><th scope="row"><kbd>o</kbd> <kbd>n</kbd></th><td>yes, once, and no, to the question that has the focus, after its end was seen</td></tr>
      <tr><th scope="row"><kbd>Esc</kbd> <kbd>s</kbd></th><td>stop the run that is shown</td></tr>
      <tr><th scope="row">arrows</th><td>move the atom that has the focus</td></tr>
      <tr><th scope="row"><kbd>c</kbd></th><td>link the atom that has the focus: again on the other one</td></tr>
      <tr><th scope="row"><kbd>Ctrl-Z</kbd></th><td>undo my last change of a canvas</td></tr>
      <tr><th scope="row"><kbd>[</kbd> <kbd>]</kbd></th><td>the revision before and the next one, among a canvas's earlier ones</td></tr>
      <tr><th scope="row"><kbd>space</kbd></th><td>pause or continue, in a session and its replay</td></tr>
      <tr><th scope="row"><kbd>←</kbd> <kbd>→</kbd></th><td>five seconds back or on, in a replay</td></tr>
      <tr><th scope="row"><kbd>,</kbd> <kbd>.</kbd></th><td>the line before and the next one, in a replay</td></tr>
      <tr><th scope="row"><kbd>f</kbd> <kbd>t</kbd></th><td>fit the screen of a session, or show it as text</td></tr>
      <tr><th scope="row"><kbd>c</kbd> <kbd>e</kbd> <kbd>y</kbd></th><td>the cause and the effect of the event that has the focus, and copy its id, in the timeline</td></tr>
      <tr><th scope="row"><kbd>Ctrl-K</kbd></th><td>go to a screen, a run, a canvas or a session by its name</td></tr>
      <tr><th scope="row"><kbd>p</kbd></th><td>another project</td></tr>
      <tr><th scope="row"><kbd>?</kbd></th><td>this list</td></tr>
    </tbody></table>
    <button onClick=${() => box.current.close()}>Close</button>
  </dialog>`;
}

function ProjectChoice({ close }) {
  const [box, field] = [useRef(null), useRef(null)];
  const [name, write] = useState(get().who.project);
  useEffect(() => { box.current.showModal(); field.current.select(); }, []);
  const send = (event) => {
    event.preventDefault();
    const project = field.current.value.trim() || 'default';
    sessionStorage.setItem('reedclaw-project', project);
    set({ who: { ...get().who, project } });
    refresh().catch(() => null);
    box.current.close();
  };
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="choice">
    <h2 id="choice">Project</h2>
    <form onSubmit=${send}>
      <label for="project-name">Name</label>
      <input id="project-name" ref=${field} value=${name} onInput=${(event) => write(event.target.value)} autocomplete="off" spellcheck=${false} maxlength="128"
        pattern="[A-Za-z0-9._:\\-]+" title="letters, digits and . _ : -" />
      <div class="row"><button class="main">Show</button><button type="button" onClick=${() => box.current.close()}>Cancel</button></div>
    </form>
  </dialog>`;
}

const isTyping = (event) => /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey;

// Listeners are in place as soon as the page is drawn: an ordinary effect comes later, and a key before it would be lost.
function useKeys(help, choose, find) {
  useLayoutEffect(() => {
    let isGoing = false;
    const press = (event) => {
      if (event.key === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey) {
        event.preventDefault();
        find(true);
      }
      if (isTyping(event)) return;
      if (isGoing) {
        isGoing = false;
        const screen = SCREENS.find(([, , , key]) => key === event.key);
        if (screen) location.hash = `#/${screen[0]}`;
      } else if (event.key === 'g') isGoing = true;
      else if (event.key === '?') help(true);
      else if (event.key === 'p') {
        event.preventDefault();
        choose(true);
      }
      else if (event.key === 'j' || event.key === 'k') {
        const all = [...document.querySelectorAll('[data-entry]')];
        const now = all.findIndex((it) => it.contains(document.activeElement));
        all[Math.max(0, Math.min(all.length - 1, now + (event.key === 'j' ? 1 : -1)))]?.focus();
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

function Shell() {
  const [at, go] = useState(place());
  const [isHelp, help] = useState(false);
  const [isChoosing, choose] = useState(false);
  const [isFinding, find] = useState(false);
  const [user, role, stopped] = [useStore((it) => it.user), useStore((it) => it.role), useStore((it) => it.stopped)];
  const [questions, who] = [useStore((it) => it.questions) ?? [], useStore((it) => it.who)];
  const [connection, notice] = [useStore((it) => it.connection), useStore((it) => it.notice)];
  const [said, alarm] = [useStore((it) => it.said), useStore((it) => it.alarm)];
  useKeys(help, choose, find);
  useLayoutEffect(() => {
    const move = () => { go(place()); set({ notice: null }); };
    addEventListener('hashchange', move);
    const look = () => refresh().catch(() => null);
    look();
    const end = onEvent((event) => {
      if (/^(question\.|kill_switch|resync)/.test(event.type)) look();
      if (event.type === 'question.asked') warn(`A question waits: ${visible(event.body?.tool)}`);
    });
    follow();
    return () => { removeEventListener('hashchange', move); end(); };
  }, []);
  // What failed without a connection is looked at again.
  useEffect(() => { if (connection === 'live' && get().questions === null) refresh().catch(() => null); }, [connection]);
  const [name = 'home', ...rest] = at[0] ? at : ['home'];
  const found = SCREENS.find(([id]) => id === name) ?? SCREENS[0];
  const Screen = rest[0] ? { runs: Run, sessions: Session }[name] ?? found[2] : found[2];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector('main h1')?.focus(); }}>Skip to the page</a>
    <header class="top"><strong>ReedClaw</strong>
      <span class="badge">${who.mode} · ${visible(who.tenant)}</span>
      <button class="small" id="project" onClick=${() => choose(true)}>Project: ${visible(who.project)}</button>
      ${stopped ? html`<span class="badge bad" id="stopped">⊘ stopped</span>` : null}
      <${Connection} />
      <span class="small">${visible(user)} (${role})</span>
      <button class="small" onClick=${() => help(true)}>Keys</button>
      <button class="small" onClick=${signOut}>Sign out</button>
    </header>
    <div class="shell">
      <nav class="rail" aria-label="Screens"><ul>${SCREENS.map(([id, title]) => html`<li><a href=${`#/${id}`}
        aria-current=${id === found[0] ? 'page' : null}>${title}${id === 'inbox' && questions.length
          ? html` <span aria-label=${`${questions.length} open`}>(${questions.length})</span>` : null}</a></li>`)}</ul></nav>
      <main>${notice ? html`<div class="notice row" role="alert" id="notice"><span>${visible(notice)}</span>
        <button onClick=${() => set({ notice: null })}>Close</button></div>` : null}<${Screen} key=${`${who.project} ${at.join('/')}`} at=${rest} /></main>
    </div>
    <div class="live" aria-live="polite">${said}</div>
    <div class="live" aria-live="assertive">${alarm}</div>
    ${isHelp ? html`<${Help} close=${() => help(false)} />` : null}
    ${isChoosing ? html`<${ProjectChoice} close=${() => choose(false)} />` : null}
    ${isFinding ? html`<${GoTo} screens=${SCREENS.map(([id, title]) => [`#/${id}`, title])} close=${() => find(false)} />` : null}`;
}

function App() {
  const session = useStore((state) => state.session);
  if (session === 'starting') return html`<main><p role="status">Signing in…</p></main>`;
  return session === 'in' ? html`<${Shell} />` : html`<${SignIn} />`;
}

async function start() {
  render(html`<${App} />`, document.getElementById('app'));
  const code = linked();
  let why = null;
  if (code) {
    // The code leaves the address bar before anything else happens.
    history.replaceState(null, '', location.pathname);
    try {
      return await signIn(code);
    } catch (wrong) { why = refusal(wrong); }
  }
  // A link that doesn't count ends no session that does.
  if (!(await renew(get().who.token).catch(() => false))) {
    set({ refused: why, session: 'out' });
  } else if (why) set({ notice: `The link didn't sign you in; your session continues. ${why}` });
  return undefined;
}

// A link that is pasted into an open page begins anew: nothing of another session stays.
addEventListener('hashchange', () => { if (linked()) location.reload(); });

start();
