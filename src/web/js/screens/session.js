// Shared sessions: a list, and one as it goes on: its screen, its lines, the model's events, its question.
import { useEffect, useMemo, useRef, useState } from '../../vendor/hooks.js';
import { api, authorised } from '../api.js';
import { get, say, useStore } from '../store.js';
import { frames, pause, untilOffline } from '../stream.js';
import { refresh } from '../refresh.js';
import { Screen, makeScreen } from '../session/screen.js';
import { begin, fold } from '../session/fold.js';
import { Lines, useSessionKeys } from '../session/lines.js';
import { Failed, None, Title, html, time, useEvents, useLoaded, visible } from '../ui.js';
import { Question } from './inbox.js';
import { Replay } from './replay.js';

/** Frames that wait while I have paused; then the session begins anew when I go on. */
const HELD_MAX = 5_000;

const names = (users, all) => (users.includes('*') ? all : users.map(visible).join(', '));

export function Sessions() {
  const { value, error, reload } = useLoaded(() => api('GET', '/shares?limit=50'), '');
  useEvents(/^share\./, reload);
  return html`<${Title}>Sessions<//>
    <p class="small soft">In a ReedClaw shell, <code>:share watch</code> shows the session here, and <code>:share approve</code> lets its questions be answered here.</p>
    <${Failed} error=${error} retry=${reload} />
    ${value?.items.length ? null : html`<${None} isKnown=${value} error=${error}>No session is shared with you.<//>`}
    <ul class="list">${value?.items.map((it) => html`<li key=${it.share_id}>
      <span class=${`badge ${it.state === 'live' ? 'good' : ''}`}>${it.state === 'live' ? '● live' : 'ended'}</span>
      ${' '}<a data-entry href=${`#/sessions/${it.share_id}${it.state === 'live' ? '' : '/replay'}`}>${visible(it.title) || it.share_id}</a>
      ${' '}<span class="soft small">${it.kind} of ${visible(it.owner)}, ${time(it.started_at)}${it.viewers.length ? `, watched by ${it.viewers.map(visible).join(', ')}` : ''}</span></li>`)}</ul>`;
}

const EMPTY = { state: 'joining', meta: null, items: [], viewers: [], why: null };

/** Follows a session; `screen` gets its bytes. */
function useSession(id, screen) {
  const [shown, show] = useState(EMPTY);
  const held = useRef(null);
  const again = useRef(() => {});
  useEffect(() => {
    const left = new AbortController();
    let state = EMPTY;
    let after = null;
    let ended = null;
    const put = (change) => { state = { ...state, ...change }; show(state); };
    const draw = (frame) => {
      if (frame.d) screen.post({ k: 'write', d: frame.d });
      if (frame.k === 'r') screen.post({ k: 'resize', cols: frame.cols, rows: frame.rows });
      if (frame.k === 'q') refresh().catch(() => null);
      const meta = frame.k === 'r' ? { ...state.meta, cols: frame.cols, rows: frame.rows } : state.meta;
      put({ meta, items: fold(state.items, frame), state: frame.k === 'g' ? 'gap' : 'live' });
    };
    const take = ({ event, data, id: number }) => {
      after = number ?? after;
      if (event === 'snapshot') {
        held.current = null;
        screen.post({ k: 'begin', cols: data.cols, rows: data.rows, screen: data.screen });
        put({ meta: data, items: begin(data), state: 'live', viewers: data.viewers });
        if (data.question) refresh().catch(() => null);
      } else if (event === 'frame' && held.current) {
        held.current.push(data);
      } else if (event === 'frame') draw(data);
      else if (event === 'viewers') put({ viewers: data.users });
      else if (event === 'ended') put({ state: 'ended', why: data.why });
    };
    again.current = () => {
      const missed = held.current ?? [];
      held.current = null;
      if (missed.length > HELD_MAX) {
        after = null;
        ended?.abort();
      } else missed.forEach(draw);
      put({ state: state.state === 'paused' ? 'live' : state.state });
    };
    (async () => {
      for (let wait = 500; !left.signal.aborted && state.state !== 'ended'; wait = Math.min(wait * 2, 8_000)) {
        ended = untilOffline(left.signal);
        try {
          const headers = after ? { 'Last-Event-ID': after } : {};
          const response = await authorised('GET', `/sse/shares/${encodeURIComponent(id)}`, { headers, signal: ended.signal });
          await frames(response, take);
          wait = 250;
        } catch (error) {
          if (left.signal.aborted) return;
          if (error.status === 404) return put({ state: 'none' });
        }
        ended.abort();
        if (state.state === 'ended') break;
        put({ state: 'catching up' });
        await pause(wait);
      }
      say('The session has ended.');
    })();
    return () => left.abort();
  }, [id]);
  const hold = () => {
    if (held.current) return again.current();
    held.current = [];
    return show((old) => ({ ...old, state: 'paused' }));
  };
  return [shown, hold];
}

const STATES = {
  joining: ['warn', '◌ joining'], live: ['good', '● live'], gap: ['warn', '◌ a part is missing'], paused: ['warn', '‖ paused by me'],
  'catching up': ['warn', '◌ catching up'], ended: ['', '■ ended'], none: ['bad', '✕ not there'],
};

function Live({ id }) {
  const screen = useMemo(makeScreen, [id]);
  const [shown, hold] = useSession(id, screen);
  const [isText, read] = useState(false);
  const [isFitted, fit] = useState(true);
  const [failed, fail] = useState(null);
  const questions = (useStore((state) => state.questions) ?? []).filter((it) => it.stream === `share/${id}`);
  const size = () => { fit(!isFitted); screen.post({ k: 'fit', on: !isFitted }); };
  useSessionKeys({ ' ': hold, t: () => read(!isText), f: size });
  const { meta, state, items, viewers } = shown;
  const [tone, word] = STATES[state];
  if (state === 'none') {
    return html`<${Title}>Session<//><p class="notice">There is no such session, or it isn't shared with you. <a href="#/sessions">All sessions</a></p>`;
  }
  const isOver = state === 'ended';
  const end = () => api('DELETE', `/shares/${encodeURIComponent(id)}`).catch(fail);
  return html`<${Title}>Session<//>
    <p class="row"><span class=${`badge ${tone}`} role="status" id="session-state">${word}</span>
      ${meta ? html`<strong>${visible(meta.title)}</strong><span class="soft small">${meta.kind} of ${visible(meta.owner)}, ${meta.cols}×${meta.rows}</span>` : null}
      <span class="soft small" id="viewers">${viewers.length ? `watched by ${viewers.map(visible).join(', ')}` : ''}</span></p>
    ${meta && (meta.approve.length || meta.watch.length) ? html`<p class="small soft">${meta.watch.length ? `Shared with ${names(meta.watch, 'every member')}. ` : ''}
      ${meta.approve.length ? `Questions may be answered by ${names(meta.approve, 'every approver')}. ` : ''}It is recorded. Keys are never shown here, and nothing can be typed.</p>` : null}
    ${isOver ? html`<p class="notice">The session has ended: ${visible(shown.why)}. <a href=${`#/sessions/${id}/replay`}>Replay it</a></p>` : null}
    ${meta?.screen_lost ? html`<p class="notice">The screen as it was isn't known; it shows what comes from now on.</p>` : null}
    ${questions.map((it) => html`<${Question} key=${it.question_id} question=${it} done=${() => refresh().catch(() => null)} />`)}
    <p class="row"><button onClick=${hold} disabled=${isOver}>${state === 'paused' ? 'Continue' : 'Pause'} (space)</button>
      <button onClick=${size} aria-pressed=${isFitted}>Fit (f)</button>
      <button onClick=${() => read(!isText)} aria-pressed=${isText}>Text (t)</button>
      ${meta?.owner === get().user && !isOver ? html`<button class="danger" onClick=${end}>End the sharing</button>` : null}</p>
    <${Failed} error=${failed} />
    <div class=${`session ${isText ? 'text' : ''}`}>
      ${meta?.kind === 'agent' ? null : html`<div class="pane"><${Screen} screen=${screen} /></div>`}
      <${Lines} items=${items} isText=${isText} />
    </div>`;
}

/** A session: as it goes on, or as it was. */
export function Session({ at }) {
  const [id, view] = at;
  return view === 'replay' ? html`<${Replay} id=${id} />` : html`<${Live} id=${id} />`;
}
