// A canvas as it was: its commits, folded up to a revision. Nothing can be changed there.
import { useLayoutEffect, useMemo, useRef, useState } from '../../vendor/hooks.js';
import { authorised } from '../api.js';
import { Failed, count, html, time, useLoaded, visible } from '../ui.js';
import { Links, isLink } from './board.js';
import { draw, fold } from './sync.js';

/** The commits of a canvas from its beginning. */
async function load(id) {
  const text = await authorised('GET', `/canvas/${encodeURIComponent(id)}/replay`).then((response) => response.text());
  return text.trim().split('\n').map((line) => JSON.parse(line)).filter((line) => line.type === 'canvas_commit');
}

function Board({ atoms }) {
  const box = useRef(null);
  const notes = atoms.filter((it) => !isLink(it));
  useLayoutEffect(() => { [...box.current.querySelectorAll('.atom')].forEach((it, at) => Object.assign(it.style, { left: `${notes[at].props.x ?? 16}px`, top: `${notes[at].props.y ?? 16}px` })); }, [atoms]);
  return html`<div class="board" role="img" tabindex="0" aria-label=${`The board with ${count(notes.length, 'atom')}`} ref=${box}>${notes.map((atom) => html`<span class="atom past" data-atom=${atom.id} key=${atom.id}>${visible(atom.props.text || atom.id)}</span>`)}<${Links} atoms=${atoms} /></div>`;
}

export function Past({ id, close }) {
  const { value, error, isLoading, reload } = useLoaded(() => load(id), id);
  const [chosen, choose] = useState(null);
  const last = value?.length ?? 0;
  const shown = Math.max(1, Math.min(last, chosen ?? last));
  const atoms = useMemo(() => draw({ atoms: (value ?? []).slice(0, shown).reduce((all, commit) => fold(all, commit.body.ops), {}), pending: [] }), [value, shown]);
  // In place as soon as the revisions are drawn: a key that comes then counts from what is shown.
  useLayoutEffect(() => {
    const press = (event) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      if (event.key === '[') choose(Math.max(1, shown - 1));
      if (event.key === ']') choose(Math.min(last, shown + 1));
      if (event.key === 'Escape') close();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [shown, last]);
  const commit = value?.[shown - 1];
  return html`<p class="row"><span class="badge warn" role="status" id="sync">a past revision: nothing can be changed</span>
      <button onClick=${close}>Back to now (Esc)</button></p>
    <${Failed} error=${error} retry=${reload} />
    ${isLoading ? html`<p role="status">Loading…</p>` : null}
    ${commit ? html`<div class="row player"><label for="revision" class="small">Revision</label>
      <input id="revision" type="range" min="1" max=${last} value=${shown} aria-valuetext=${`revision ${commit.body.rev} of ${value[last - 1].body.rev}`}
        onInput=${(event) => choose(Number(event.target.value))} />
      <span class="small" id="revision-of">revision ${commit.body.rev} of ${value[last - 1].body.rev}, by ${visible(commit.actor)}, ${time(commit.at)} ([ and ])</span></div>
      <${Board} atoms=${atoms} />
      <h2>List</h2>
      <ul class="list" id="past">${atoms.map((atom) => html`<li key=${atom.id}>${visible(atom.type)} ${visible(atom.id)}: ${visible(atom.props.text)}</li>`)}</ul>` : null}`;
}
