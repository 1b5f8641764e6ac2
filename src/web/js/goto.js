// Going to a screen, a run, a canvas or a session by its name.
import { useEffect, useRef, useState } from '../vendor/hooks.js';
import { api } from './api.js';
import { html, useLoaded, visible } from './ui.js';

const SHOWN_MAX = 12;

/** Places with their names, the screens first. */
async function places(screens) {
  const lists = [['/runs?limit=50', (it) => [`#/runs/${it.run_id}`, `Run: ${it.question}`]],
    ['/canvas?limit=100', (it) => [`#/canvas/${encodeURIComponent(it.canvas_id)}`, `Canvas: ${it.canvas_id}`]],
    ['/shares?limit=50', (it) => [`#/sessions/${it.share_id}`, `Session: ${it.title || it.share_id}`]]];
  // What can't be read isn't offered.
  const found = await Promise.all(lists.map(([path, entry]) => api('GET', path).then(({ items }) => items.map(entry), () => [])));
  return [...screens, ...found.flat()];
}

export function GoTo({ screens, close }) {
  const [box, field] = [useRef(null), useRef(null)];
  const [words, write] = useState('');
  const { value } = useLoaded(() => places(screens), '');
  useEffect(() => { box.current.showModal(); field.current.focus(); }, []);
  const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (value ?? screens).filter(([, name]) => parts.every((part) => name.toLowerCase().includes(part))).slice(0, SHOWN_MAX);
  const go = (event) => {
    event.preventDefault();
    if (!found.length) return;
    location.hash = found[0][0];
    box.current.close();
  };
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="goto">
    <h2 id="goto">Go to</h2>
    <form onSubmit=${go}><label for="goto-words">Part of a name; Enter opens the first</label>
      <input id="goto-words" ref=${field} value=${words} autocomplete="off" spellcheck=${false} onInput=${(event) => write(event.target.value)} /></form>
    <ul class="list" id="places">${found.map(([place, name]) => html`<li key=${place}><a href=${place} onClick=${() => box.current.close()}>${visible(name).slice(0, 120)}</a></li>`)}</ul>
    ${found.length ? null : html`<p class="soft">Nothing has this name.</p>`}
    <button onClick=${() => box.current.close()}>Close</button>
  </dialog>`;
}
