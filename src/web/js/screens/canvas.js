// A board of atoms: the server's state with my pending operations over it. Every atom is a button in reading order, and the list
// does everything that the board does.
import { useEffect, useMemo, useRef, useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { get, onEvent, say } from '../store.js';
import { Files } from '../canvas/files.js';
import { Past } from '../canvas/past.js';
import { apply, draw, send } from '../canvas/sync.js';
import { Failed, Title, html, useOnline, visible } from '../ui.js';

const STEP = 16;
/** The ways past a gate. */
const WAYS = {
  kill_switch: 'Only a person at a terminal lifts it: reedclaw gateway estop --clear',
  strategy_lock: 'An approver who is not its author approves a strategy lock on the page Safety.',
  firearms: 'An operator issues a licence.',
  budget: 'An admin raises the limit at a terminal: reedclaw gateway tenant limit',
  temperature: 'It cools down by itself.',
};
/** Another's pointer goes away after so long. */
const CURSOR_MS = 5_000;
/** My own pointer is told so often at most. */
const TELL_MS = 100;

/** The pointers of others, which nobody stores. */
function Cursors({ of }) {
  const box = useRef(null);
  useEffect(() => { [...box.current.children].forEach((it, at) => Object.assign(it.style, { left: `${of[at].x}px`, top: `${of[at].y}px` })); }, [of]);
  return html`<div ref=${box} aria-hidden="true">${of.map((it) => html`<span class="cursor" key=${it.actor}>▲ ${visible(it.actor)}</span>`)}</div>`;
}

const KEYS = { ArrowLeft: ['x', -STEP], ArrowRight: ['x', STEP], ArrowUp: ['y', -STEP], ArrowDown: ['y', STEP] };

function Atom({ atom, pending, held, change, drop }) {
  const box = useRef(null);
  const { x = 16, y = 16, text = '' } = atom.props;
  useEffect(() => { Object.assign(box.current.style, { left: `${x}px`, top: `${y}px` }); }, [x, y]);
  const press = (event) => {
    const [axis, by] = KEYS[event.key] ?? [];
    if (axis) {
      event.preventDefault();
      change(atom, axis, Math.max(0, (axis === 'x' ? x : y) + by));
    }
    if (event.key === 'Delete') drop(atom);
  };
  return html`<button ref=${box} class=${`atom ${pending ? 'pending' : ''} ${held ? 'held' : ''}`} onKeyDown=${press}
    aria-label=${`${atom.type} ${text || atom.id}, at ${x}, ${y}${pending ? ', not stored yet' : ''}`}>${visible(text) || atom.id}</button>`;
}

export function Canvas({ at }) {
  const id = at[0] || 'board';
  const online = useOnline();
  const sync = useMemo(() => ({ rev: 0, atoms: {}, pending: [], held: null, last: null }), [id]);
  const [, redraw] = useState(0);
  const [error, fail] = useState(null);
  const [state, tell] = useState('loading');
  const [cursors, point] = useState([]);
  const [isPast, look] = useState(false);
  const told = useRef(0);
  const shown = () => { redraw((count) => count + 1); tell(sync.held ? 'held' : sync.pending.length ? `${sync.pending.length} pending` : 'synced'); };
  const load = async () => {
    const before = sync.rev;
    try {
      const snapshot = await api('GET', `/canvas/${encodeURIComponent(id)}/snapshot`);
      // Commits that came meanwhile may be newer than this snapshot.
      if (sync.rev === before || snapshot.rev >= sync.rev) Object.assign(sync, { rev: snapshot.rev, atoms: Object.fromEntries(snapshot.atoms.map((it) => [it.id, it])) });
      fail(null);
    } catch (wrong) { if (wrong.status !== 404) fail(wrong); }
    shown();
  };
  useEffect(() => {
    load();
    return onEvent((event) => {
      if (event.type === 'resync') load();
      if (event.stream === `canvas/${id}` && event.type === 'gesture' && event.actor !== get().user) {
        const until = Date.now() + CURSOR_MS;
        point((all) => [...all.filter((it) => it.actor !== event.actor && it.until > Date.now()), { actor: event.actor, until, x: event.body.x ?? 0, y: event.body.y ?? 0 }]);
        setTimeout(() => point((all) => all.filter((it) => it.until > Date.now())), CURSOR_MS + 50);
      }
      if (event.stream !== `canvas/${id}` || event.type !== 'canvas_commit') return;
      if (apply(sync, event.body) === 'gap') load();
      shown();
    });
  }, [id]);
  const push = async (ops) => {
    sync.pending.push({ key: crypto.randomUUID(), ops });
    shown();
    await flush();
  };
  const flush = async () => {
    const done = await send(sync, (body) => api('POST', `/canvas/${encodeURIComponent(id)}/commands`, body));
    if (done?.isGap) await load();
    if (done?.rebased) say('The canvas had changed; your change was put on top.');
    fail(done?.error ?? null);
    shown();
  };
  const move = (event) => {
    if (!online || !sync.rev || Date.now() - told.current < TELL_MS) return;
    told.current = Date.now();
    const board = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - board.left, event.clientY - board.top].map((it) => Math.max(0, Math.round(it)));
    // A pointer that isn't told harms nobody.
    api('POST', `/canvas/${encodeURIComponent(id)}/gestures`, { kind: 'cursor', x, y }).catch(() => null);
  };
  const all = draw(sync);
  const add = () => push([{ op: 'create', atom: { id: `n-${crypto.randomUUID().slice(0, 8)}`, type: 'note', order: `a${Date.now()}`,
    props: { text: 'New note', x: 16 + 24 * (all.length % 12), y: 16 + 24 * (all.length % 12) } } }]);
  const change = (atom, name, value) => push([{ op: 'set', id: atom.id, path: `/${name}`, value }]);
  const drop = (atom) => push([{ op: 'delete', id: atom.id }]);
  const mine = new Set(sync.pending.flatMap((it) => it.ops.map((op) => op.id ?? op.atom?.id)));
  if (isPast) return html`<${Title}>Canvas ${visible(id)}<//><${Past} id=${id} close=${() => look(false)} />`;
  return html`<${Title}>Canvas ${visible(id)}<//>
    <p class="row"><span class="badge" role="status" id="sync">${state}</span><span class="soft small">revision ${sync.rev}</span>
      <button disabled=${!online || sync.held} onClick=${add}>Add a note</button>
      <button disabled=${!online || !sync.rev} onClick=${() => look(true)}>Earlier revisions</button></p>
    ${sync.held ? html`<div class="notice bad" role="alert" id="held"><p>⊘ Held by the gate ${sync.held.code}: ${visible(sync.held.message)}</p>
      ${WAYS[sync.held.code] ? html`<p>${sync.held.context?.lock_id ? `Lock ${sync.held.context.lock_id}. ` : ''}${WAYS[sync.held.code]}</p>` : null}
      <p class="row"><button onClick=${() => { sync.held = null; flush(); }}>Retry</button>
        <button class="danger" onClick=${() => { sync.held = null; sync.pending = []; shown(); }}>Discard</button></p></div>` : null}
    <${Failed} error=${error} retry=${load} />
    <div class="board" role="group" aria-label="Board" tabindex="-1" onPointerMove=${move}><${Cursors} of=${cursors} />${all.map((atom) => html`<${Atom} key=${atom.id} atom=${atom}
      pending=${mine.has(atom.id)} held=${sync.held && mine.has(atom.id)} change=${change} drop=${drop} />`)}</div>
    <h2>List</h2>
    ${all.length ? null : html`<p class="soft">The canvas is empty.</p>`}
    <ul class="list">${all.map((atom) => html`<li key=${atom.id}><div class="row">
      <label for=${`text-${atom.id}`}>${visible(atom.type)} ${atom.id}</label>
      <input id=${`text-${atom.id}`} value=${atom.props.text ?? ''} onChange=${(event) => change(atom, 'text', event.target.value)} />
      <button class="danger" disabled=${!online} aria-label=${`Delete ${atom.id}`} onClick=${() => drop(atom)}>Delete</button></div></li>`)}</ul>
    <${Files} id=${id} rev=${sync.rev} />`;
}
