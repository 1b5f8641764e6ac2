// The board of a canvas: atoms that are moved by the mouse, by touch or by keys, the links between them, and the pointers of others.
import { useEffect, useLayoutEffect, useRef, useState } from '../../vendor/hooks.js';
import { html, visible } from '../ui.js';

const STEP = 16;
/** A pointer that moves less hasn't moved an atom. */
const STILL = 4;
const KEYS = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };

export const isLink = (atom) => atom.type === 'link' && Boolean(atom.props.from && atom.props.to);

/** Puts an atom where its properties say. */
function put(box, { x = 16, y = 16 }) {
  Object.assign(box.style, { left: `${x}px`, top: `${y}px` });
}

/** The pointers of others, which nobody stores. */
export function Cursors({ of }) {
  const box = useRef(null);
  useEffect(() => { [...box.current.children].forEach((it, at) => put(it, of[at])); }, [of]);
  return html`<div ref=${box} aria-hidden="true">${of.map((it) => html`<span class="cursor" key=${it.actor}>▲ ${visible(it.actor)}</span>`)}</div>`;
}

/** Lines between the atoms that links join; they are drawn after the atoms have their places. */
export function Links({ atoms }) {
  const box = useRef(null);
  const [lines, draw] = useState([]);
  useLayoutEffect(() => {
    const boxes = Object.fromEntries([...box.current.parentElement.querySelectorAll('[data-atom]')].map((it) => [it.dataset.atom, it]));
    const middle = (it) => [it.offsetLeft + it.offsetWidth / 2, it.offsetTop + it.offsetHeight / 2];
    draw(atoms.filter(isLink).filter(({ props }) => boxes[props.from] && boxes[props.to])
      .map(({ id, props }) => [id, ...middle(boxes[props.from]), ...middle(boxes[props.to])]));
  }, [JSON.stringify(atoms.map(({ id, props }) => [id, props]))]);
  return html`<svg class="links" ref=${box} aria-hidden="true">${lines.map(([id, x1, y1, x2, y2]) =>
    html`<line key=${id} x1=${x1} y1=${y1} x2=${x2} y2=${y2} />`)}</svg>`;
}

/** An atom. `move` gets its new place, `connect` is called for the key c, `drop` for Delete. */
export function Atom({ atom, pending, held, isChosen, move, connect, drop }) {
  const box = useRef(null);
  const drag = useRef(null);
  const { x = 16, y = 16, text = '' } = atom.props;
  useLayoutEffect(() => put(box.current, { x, y }), [x, y]);
  const to = (right, down) => ({ x: Math.max(0, Math.round(x + right)), y: Math.max(0, Math.round(y + down)) });
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (KEYS[event.key]) {
      event.preventDefault();
      move(atom, to(...KEYS[event.key]));
    }
    if (event.key === 'c') connect(atom);
    if (event.key === 'Delete') drop(atom);
  };
  const take = (event) => {
    if (event.button !== 0) return;
    drag.current = [event.clientX, event.clientY];
    box.current.setPointerCapture(event.pointerId);
  };
  const moved = ({ clientX, clientY }) => (drag.current ? [clientX - drag.current[0], clientY - drag.current[1]] : [0, 0]);
  const follow = (event) => { if (drag.current) put(box.current, to(...moved(event))); };
  const leave = (event) => {
    if (!drag.current) return;
    const [right, down] = moved(event);
    drag.current = null;
    if (event.type === 'pointerup' && Math.hypot(right, down) >= STILL) move(atom, to(right, down));
    else put(box.current, { x, y });
  };
  return html`<button ref=${box} class=${`atom ${pending ? 'pending' : ''} ${held ? 'held' : ''} ${isChosen ? 'chosen' : ''}`} data-atom=${atom.id}
    onKeyDown=${press} onPointerDown=${take} onPointerMove=${follow} onPointerUp=${leave} onPointerCancel=${leave}
    aria-label=${`${visible(atom.type)} ${visible(text || atom.id)}, at ${x}, ${y}${pending ? ', not stored yet' : ''}`}>${visible(text || atom.id)}</button>`;
}
