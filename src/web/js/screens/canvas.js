// A board of atoms: the server's state with my pending operations over it. Every atom is a button in reading order, and the list
// does everything that the board does.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from '../../vendor/hooks.js';
import { ApiError, api } from '../api.js';
import { get, onEvent, say, useStore } from '../store.js';
import { Atom, Cursors, Links, isLink } from '../canvas/board.js';
import { Files } from '../canvas/files.js';
import { Past } from '../canvas/past.js';
import { AGAIN_S, apply, draw, isLater, send } from '../canvas/sync.js';
import { inverse } from '../canvas/undo.js';
import { Failed, None, Title, html, useLoaded, useOnline, visible } from '../ui.js';

/** The ways past a gate. */
const WAYS = {
  kill_switch: 'Only a person at a terminal lifts it: reedclaw gateway estop --clear',
  strategy_lock: 'An approver who is not its author approves a strategy lock on the page Safety.',
  firearms: 'An operator issues a licence.',
  budget: 'An admin raises the limit at a terminal: reedclaw gateway tenant limit',
  temperature: 'It cools down on its own.',
};
/** Another's pointer goes away after so long. */
const CURSOR_MS = 5_000;
/** My own pointer is told so often at most. */
const TELL_MS = 100;

/** Changes that can be taken back. */
const UNDO_MAX = 100;

/** Canvases with changes that aren't sent yet, by person, project and canvas: they stay while other screens are shown. */
const unsent = new Map();
addEventListener('beforeunload', (event) => { if ([...unsent.values()].some((it) => it.pending.length)) event.preventDefault(); });

/** A canvas that nobody has changed yet. */
const NOTHING = { rev: 0, atoms: [] };
/** Whether there is a canvas of this name, for one that nobody has asked for. */
const isThere = async (id) => {
  const { items, next } = await api('GET', '/canvas?limit=500');
  return next !== null || items.some((it) => it.canvas_id === id);
};

/** The way to another canvas of the project, or to a new one. */
function Choice({ id }) {
  const field = useRef(null);
  const { value } = useLoaded(() => api('GET', '/canvas?limit=100'), id);
  const open = (event) => {
    event.preventDefault();
    location.hash = `#/canvas/${encodeURIComponent(field.current.value.trim())}`;
  };
  const others = (value?.items ?? []).filter((it) => it.canvas_id !== id);
  return html`<form class="row" onSubmit=${open}>
      <label for="canvas-name">Another canvas</label>
      <input id="canvas-name" ref=${field} required maxlength="128" pattern="[A-Za-z0-9._:\\-]+" title="letters, digits and . _ : -" autocomplete="off" spellcheck=${false} />
      <button>Open</button></form>
    ${others.length ? html`<ul class="list" id="canvases">${others.map((it) => html`<li key=${it.canvas_id}>
      <a data-entry href=${`#/canvas/${encodeURIComponent(it.canvas_id)}`}>${visible(it.canvas_id)}</a><span class="soft small"> revision ${it.rev}</span></li>`)}</ul>` : null}`;
}

// The text of an atom. What is being typed stays, whatever others change meanwhile.
function Words({ atom, disabled, change }) {
  const [typed, type] = useState(null);
  const done = (event) => {
    type(null);
    change(atom, { text: event.target.value });
  };
  return html`<input id=${`text-${atom.id}`} value=${typed ?? atom.props.text ?? ''} disabled=${disabled}
    onInput=${(event) => type(event.target.value)} onChange=${done} onBlur=${() => type(null)} />`;
}

// The atoms that one can be linked with. They are there once somebody comes near: with each of hundreds of atoms, all others would be
// most of the page, and each commit would draw them anew.
function LinkWith({ atom, notes, disabled, link }) {
  const [isNear, come] = useState(false);
  const near = () => come(true);
  return html`<select aria-label=${`Link ${visible(atom.id)} with`} disabled=${disabled} value="" onPointerEnter=${near} onFocus=${near} onBlur=${() => come(false)}
    onChange=${(event) => { link(atom.id, event.target.value); event.target.value = ''; }}>
    <option value="">Link with…</option>${isNear ? notes.filter((it) => it.id !== atom.id).map((it) => html`<option key=${it.id} value=${it.id}>${visible(it.props.text || it.id)}</option>`) : null}</select>`;
}

export function Canvas({ at }) {
  const id = at[0] || 'board';
  const online = useOnline();
  const { user, project, name } = useMemo(() => {
    const { user, who: { tenant, project } } = get();
    return { user, project, name: JSON.stringify([user, tenant, project, id]) };
  }, [id]);
  const sync = useMemo(() => {
    if (!unsent.has(name)) unsent.set(name, { rev: 0, atoms: {}, pending: [], held: null });
    return Object.assign(unsent.get(name), { isLoaded: false });
  }, [id]);
  const isHere = useRef(true);
  const isLoading = useRef(false);
  const timer = useRef(null);
  const [, redraw] = useState(0);
  const [error, fail] = useState(null);
  const [state, tell] = useState('loading');
  const [cursors, point] = useState([]);
  const [isPast, look] = useState(false);
  const [chosen, choose] = useState(null);
  const told = useRef(0);
  const undone = useRef([]);
  const canWrite = useStore((all) => all.role) !== 'viewer';
  const connection = useStore((all) => all.connection);
  const shown = () => {
    redraw((count) => count + 1);
    tell(sync.held ? 'held' : sync.pending.length ? `${sync.pending.length} pending` : sync.isLoaded ? 'synced' : 'not loaded');
  };
  const load = async () => {
    const before = sync.rev;
    let wrong = null;
    isLoading.current = true;
    try {
      const snapshot = at[0] || sync.rev || await isThere(id) ? await api('GET', `/canvas/${encodeURIComponent(id)}/snapshot`) : NOTHING;
      // Commits that came meanwhile may be newer than this snapshot.
      if (sync.rev === before || snapshot.rev >= sync.rev) Object.assign(sync, { rev: snapshot.rev, atoms: Object.fromEntries(snapshot.atoms.map((it) => [it.id, it])) });
      sync.isLoaded = true;
    } catch (error) { wrong = error; }
    // One that isn't there yet is empty.
    if (wrong?.status === 404) [sync.isLoaded, wrong] = [true, null];
    isLoading.current = false;
    fail(wrong);
    shown();
    return wrong;
  };
  useEffect(() => () => {
    isHere.current = false;
    clearTimeout(timer.current);
    if (!sync.pending.length) unsent.delete(name);
  }, []);
  useEffect(() => {
    again();
    return onEvent((event) => {
      if (event.type === 'resync') again();
      if (event.stream === `canvas/${id}` && event.type === 'gesture' && event.actor !== get().user) {
        const until = Date.now() + CURSOR_MS;
        point((all) => [...all.filter((it) => it.actor !== event.actor && it.until > Date.now()), { actor: event.actor, until, x: event.body.x ?? 0, y: event.body.y ?? 0 }]);
        setTimeout(() => point((all) => all.filter((it) => it.until > Date.now())), CURSOR_MS + 50);
      }
      if (event.stream !== `canvas/${id}` || event.type !== 'canvas_commit') return;
      if (apply(sync, event.body) === 'gap') again();
      shown();
    });
  }, [id]);
  const push = async (ops, isUndo) => {
    if (!canWrite || !ops.length) return;
    if (!isUndo) undone.current = [...undone.current.slice(1 - UNDO_MAX), inverse(Object.fromEntries(draw(sync).map((it) => [it.id, it])), ops)];
    sync.pending.push({ key: crypto.randomUUID(), ops });
    shown();
    await flush();
  };
  const flush = async () => {
    clearTimeout(timer.current);
    const done = await send(sync, (body) => {
      // What is pending waits for its own screen, person and project.
      if (!isHere.current || get().user !== user) throw new ApiError(0, null);
      return api('POST', `/canvas/${encodeURIComponent(id)}/commands`, body, { headers: { 'X-Project-Id': project } });
    });
    if (!isHere.current) return;
    if (done.isBusy || done.againS) timer.current = setTimeout(flush, 1_000 * (done.againS ?? 1));
    if (done.isBusy) return;
    if (done.isGap) await load();
    if (done.rebased) say('The canvas had changed; your change was put on top.');
    if (!done.isGap) fail(done.error ?? null);
    shown();
  };
  const again = async () => {
    const wrong = await load();
    if (!isHere.current) return;
    if (!wrong) await flush();
    else if (isLater(wrong.status)) timer.current = setTimeout(again, 1_000 * (wrong.retryAfterS ?? AGAIN_S));
  };
  // What was changed without a connection is sent when there is one.
  useEffect(() => {
    if (connection !== 'live') return;
    if (sync.isLoaded) flush();
    else if (!isLoading.current) again();
  }, [connection]);
  const discard = () => {
    Object.assign(sync, { held: null, pending: [] });
    undone.current = [];
    fail(null);
    shown();
  };
  const move = (event) => {
    if (!online || !canWrite || !sync.rev || Date.now() - told.current < TELL_MS) return;
    told.current = Date.now();
    const board = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - board.left, event.clientY - board.top].map((it) => Math.max(0, Math.round(it)));
    // A pointer that isn't told harms nobody.
    api('POST', `/canvas/${encodeURIComponent(id)}/gestures`, { kind: 'cursor', x, y }).catch(() => null);
  };
  const all = draw(sync);
  const notes = all.filter((it) => !isLink(it));
  const named = (end) => all.find((it) => it.id === end)?.props.text || end;
  const add = () => push([{ op: 'create', atom: { id: `n-${crypto.randomUUID().slice(0, 8)}`, type: 'note', order: `a${Date.now()}`,
    props: { text: 'New note', x: 16 + 24 * (all.length % 12), y: 16 + 24 * (all.length % 12) } } }]);
  const change = (atom, props) => push(Object.entries(props).filter(([name, value]) => atom.props[name] !== value)
    .map(([name, value]) => ({ op: 'set', id: atom.id, path: `/${name}`, value })));
  const drop = (atom) => push([{ op: 'delete', id: atom.id }]);
  const link = (from, to) => push([{ op: 'create', atom: { id: `l-${crypto.randomUUID().slice(0, 8)}`, type: 'link', order: `a${Date.now()}`, props: { from, to } } }]);
  const connect = ({ id: end }) => {
    if (chosen && chosen !== end) link(chosen, end);
    choose(chosen ? null : end);
    say(chosen ? (chosen === end ? 'No link.' : 'Linked.') : 'Go to another atom and press c to link them, or Escape.');
  };
  // In place as soon as the board is drawn, and always with what is shown.
  useLayoutEffect(() => {
    const press = (event) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || isPast) return;
      if (event.key === 'Escape') choose(null);
      if (event.key !== 'z' || !(event.ctrlKey || event.metaKey) || !undone.current.length || !canWrite) return;
      event.preventDefault();
      push(undone.current.pop(), true);
      say('Undone.');
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  });
  const mine = new Set(sync.pending.flatMap((it) => it.ops.map((op) => op.id ?? op.atom?.id)));
  if (isPast) return html`<${Title}>Canvas ${visible(id)}<//><${Past} id=${id} close=${() => look(false)} />`;
  return html`<${Title}>Canvas ${visible(id)}<//>
    <p class="row"><span class="badge" role="status" id="sync">${state}</span>${sync.isLoaded ? html`<span class="soft small">revision ${sync.rev}</span>` : null}
      <button disabled=${!online || sync.held || !canWrite} onClick=${add}>Add a note</button>
      <button disabled=${!online || !sync.rev} onClick=${() => look(true)}>Earlier revisions</button></p>
    ${sync.held ? html`<div class="notice bad" role="alert" id="held"><p>⊘ Held by the gate ${sync.held.code}: ${visible(sync.held.message)}</p>
      ${WAYS[sync.held.code] ? html`<p>${sync.held.context?.lock_id ? `Lock ${sync.held.context.lock_id}. ` : ''}${WAYS[sync.held.code]}</p>` : null}
      <p class="row"><button onClick=${() => { sync.held = null; flush(); }}>Retry</button>
        <button class="danger" onClick=${discard}>Discard</button></p></div>` : null}
    <${Failed} error=${error} retry=${again} />
    ${error && sync.pending.length && !sync.held ? html`<p class="row"><span>Your changes are kept here and sent again by themselves.</span>
      <button class="danger" onClick=${discard}>Discard them</button></p>` : null}
    <div class="board" role="group" aria-label="Board" tabindex="-1" onPointerMove=${move}><${Cursors} of=${cursors} />${notes.map((atom) => html`<${Atom} key=${atom.id} atom=${atom}
      pending=${mine.has(atom.id)} held=${sync.held && mine.has(atom.id)} isChosen=${chosen === atom.id} move=${change} connect=${connect} drop=${drop} />`)}<${Links} atoms=${all} /></div>
    <h2>List</h2>
    ${all.length ? null : html`<${None} isKnown=${sync.isLoaded} error=${error}>The canvas is empty.<//>`}
    <ul class="list">${notes.map((atom) => html`<li key=${atom.id}><div class="row">
      <label for=${`text-${atom.id}`}>${visible(atom.type)} ${visible(atom.id)}</label>
      <${Words} atom=${atom} disabled=${!canWrite} change=${change} />
      ${notes.length > 1 ? html`<${LinkWith} atom=${atom} notes=${notes} disabled=${!online || !canWrite} link=${link} />` : null}
      <button class="danger" disabled=${!online || !canWrite} aria-label=${`Delete ${visible(atom.id)}`} onClick=${() => drop(atom)}>Delete</button></div></li>`)}
      ${all.filter(isLink).map((atom) => html`<li key=${atom.id} class="row"><span>link ${visible(named(atom.props.from))} – ${visible(named(atom.props.to))}</span>
      <button class="danger" disabled=${!online || !canWrite} aria-label=${`Delete ${visible(atom.id)}`} onClick=${() => drop(atom)}>Delete</button></li>`)}</ul>
    <${Files} id=${id} rev=${sync.rev} canWrite=${canWrite} />
    <h2>Canvases</h2>
    <${Choice} id=${id} />`;
}
