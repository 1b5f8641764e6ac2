// A session as it was: its recording, played again, with its lines as places to go to.
import { useEffect, useMemo, useRef, useState } from '../../vendor/hooks.js';
import { api, authorised, download } from '../api.js';
import { Screen, makeScreen } from '../session/screen.js';
import { fold, recording } from '../session/fold.js';
import { Lines, useSessionKeys } from '../session/lines.js';
import { Failed, Title, html, time, useLoaded, visible } from '../ui.js';

const STEP_S = 5;
/** A silence is shortened to so many seconds. */
const SILENCE_S = 2;
const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;

/** Plays a recording on a screen. The state of the player is the number of frames that are shown. */
function makePlayer(cast, screen, show) {
  let shown = 0;
  let at = 0;
  let timer = null;
  let items = [];
  const tell = () => show({ at, items, isPlaying: timer !== null });
  const put = (frame) => {
    if (frame.d) screen.post({ k: 'write', d: frame.d });
    if (frame.k === 'r') screen.post({ k: 'resize', cols: frame.cols, rows: frame.rows });
    items = fold(items, frame);
  };
  const player = {
    /** Goes to a time; what was before it is drawn at once. */
    go(seconds) {
      at = Math.max(0, Math.min(cast.length, seconds));
      const until = cast.frames.findIndex((frame) => frame.at > at);
      const count = until < 0 ? cast.frames.length : until;
      if (count < shown || shown === 0) {
        shown = 0;
        items = [];
        screen.post({ k: 'begin', cols: cast.cols, rows: cast.rows, screen: '' });
      }
      cast.frames.slice(shown, count).forEach(put);
      shown = count;
      if (timer !== null) player.play();
      tell();
    },
    play() {
      clearTimeout(timer);
      const next = cast.frames[shown];
      if (!next) {
        timer = null;
        at = cast.length;
        return tell();
      }
      const wait = Math.max(0, Math.min(next.at - at, SILENCE_S));
      timer = setTimeout(() => {
        at = next.at;
        put(next);
        shown += 1;
        player.play();
      }, wait * 1_000);
      return tell();
    },
    pause() {
      clearTimeout(timer);
      timer = null;
      tell();
    },
    toggle() {
      if (timer !== null) return player.pause();
      if (shown >= cast.frames.length) player.go(0);
      return player.play();
    },
    by: (seconds) => player.go(at + seconds),
    /** Goes to the next line, or to the one before. */
    line(step) {
      const lines = cast.frames.filter((frame) => frame.k === 'l');
      const found = step > 0 ? lines.find((frame) => frame.at > at + 0.01) : lines.findLast((frame) => frame.at < at - 0.01);
      if (found) player.go(found.at);
      else if (step < 0) player.go(0);
    },
  };
  return player;
}

export function Replay({ id }) {
  const path = `/shares/${encodeURIComponent(id)}`;
  const { value, error, isLoading, reload } = useLoaded(async () => {
    const [meta, text] = await Promise.all([api('GET', path), authorised('GET', `${path}/recording`).then((response) => response.text())]);
    return { meta, cast: recording(text) };
  }, id);
  const screen = useMemo(makeScreen, [id]);
  const [state, show] = useState({ at: 0, items: [], isPlaying: false });
  const [isText, read] = useState(false);
  const [isFitted, fit] = useState(true);
  const [failed, fail] = useState(null);
  const player = useRef(null);
  useEffect(() => {
    if (!value) return undefined;
    player.current = makePlayer(value.cast, screen, show);
    player.current.go(0);
    return () => player.current.pause();
  }, [value]);
  const act = (name, ...values) => () => player.current?.[name](...values);
  const size = () => { fit(!isFitted); screen.post({ k: 'fit', on: !isFitted }); };
  useSessionKeys({ ' ': act('toggle'), ArrowLeft: act('by', -STEP_S), ArrowRight: act('by', STEP_S), ',': act('line', -1), '.': act('line', 1),
    f: size, t: () => read(!isText) });
  const length = value?.cast.length ?? 0;
  return html`<${Title}>Replay<//>
    <${Failed} error=${error?.status === 404 ? { message: 'There is no such recording, or it is not for you. Recordings are kept for seven days.' } : error ?? failed} retry=${error ? reload : null} />
    ${isLoading && !error ? html`<p role="status">Loading…</p>` : null}
    ${value ? html`<p class="row"><strong>${visible(value.meta.title)}</strong>
        <span class="soft small">${value.meta.kind} of ${visible(value.meta.owner)}, ${time(value.meta.started_at)}</span>
        ${value.meta.state === 'live' ? html`<a href=${`#/sessions/${id}`}>It is still running: watch it live</a>` : null}</p>
      <div class="row player"><button class="main" onClick=${act('toggle')}>${state.isPlaying ? 'Pause' : 'Play'} (space)</button>
        <button onClick=${act('line', -1)} aria-label="Line before">, ◂</button><button onClick=${act('line', 1)} aria-label="Next line">▸ .</button>
        <label for="time" class="small">Time</label>
        <input id="time" type="range" min="0" max=${Math.max(1, Math.ceil(length * 10))} value=${Math.round(state.at * 10)}
          aria-valuetext=${`${clock(state.at)} of ${clock(length)}`} onInput=${(event) => player.current.go(Number(event.target.value) / 10)} />
        <span class="mono small" id="clock">${clock(state.at)} / ${clock(length)}</span>
        <button onClick=${size} aria-pressed=${isFitted}>Fit (f)</button>
        <button onClick=${() => read(!isText)} aria-pressed=${isText}>Text (t)</button>
        <button onClick=${() => download(`${path}/recording`, `${id}.cast`).then(() => fail(null), fail)}>Download (.cast)</button></div>
      <div class=${`session ${isText ? 'text' : ''}`}>
        ${value.meta.kind === 'agent' ? null : html`<div class="pane"><${Screen} screen=${screen} /></div>`}
        <${Lines} items=${state.items} isText=${isText} jump=${(item) => player.current.go(item.at)} />
      </div>` : null}`;
}
