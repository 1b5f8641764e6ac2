// The list of a session's lines: what ran, what it printed, what the model did, who was asked. And the keys of a session.
import { useEffect, useLayoutEffect, useRef } from '../../vendor/hooks.js';
import { Markdown } from '../markdown.js';
import { html, visible } from '../ui.js';
import { output } from './fold.js';

function Event({ item }) {
  const { event, done, isDenied } = item;
  switch (event.event) {
    case 'text': case 'answered': case 'cancelled': return html`<${Markdown} text=${event.text} />`;
    case 'failed': return html`<p class="bad">${visible(event.message)}</p>`;
    case 'notice': case 'turn_committed': return html`<p class="small soft">${visible(event.text)}</p>`;
    case 'tool_denied': return html`<p class="small bad">⊘ ${visible(event.tool)}: denied, ${visible(event.why)}</p>`;
    case 'tool_requested': return html`<p class="small"><strong>${visible(event.tool)}</strong> ${visible(event.intent)}
      ${isDenied ? html` <span class="badge">⊘ denied</span>` : done ? html` <span class="badge">${done.result.success ? '✓ done' : '✕ failed'}</span>` : html` <span class="badge">…</span>`}</p>
      ${done?.result.output ? html`<details><summary>Result of ${visible(event.tool)}</summary><pre tabindex="0">${visible(done.result.output)}</pre></details>` : null}`;
    default: return null;
  }
}

function Entry({ item, isText, jump }) {
  if (item.k === 'l') {
    const text = output(item);
    const ended = item.status === undefined ? null
      : html` <span class=${`badge ${item.status === 0 ? 'good' : 'bad'}`}>${item.status === 0 ? '✓' : '✕'} ${item.status}</span>`;
    return html`<div class="row">${jump ? html`<button class="small" onClick=${jump} aria-label="Go to this line">▸</button>` : null}
        <code>${item.to === 'model' ? '?' : '❯'} ${item.hidden ? '(a line that is not shown)' : visible(item.text)}</code>${ended}</div>
      ${text ? (isText ? html`<pre tabindex="0" class="output">${visible(text)}</pre>`
        : html`<details><summary>Output</summary><pre tabindex="0" class="output">${visible(text)}</pre></details>`) : null}`;
  }
  if (item.k === 'q') return html`<p class="small warn">? Asked: ${visible(item.card.tool)}: ${visible(item.card.action)}</p>`;
  if (item.k === 'a' && item.answer === 'none') return html`<p class="small">✕ no one answered in time</p>`;
  if (item.k === 'a') return html`<p class="small">${item.answer === 'once' ? '✓ yes' : '✕ no'}, ${visible(item.by)}${item.at_terminal ? ' at the terminal' : ''}</p>`;
  return html`<${Event} item=${item} />`;
}

/** The lines, what they printed, and what the model did, in order. */
export function Lines({ items, isText, jump }) {
  const end = useRef(null);
  const isNear = useRef(true);
  useEffect(() => { if (isNear.current) end.current.scrollTop = end.current.scrollHeight; }, [items]);
  const scrolled = ({ target }) => { isNear.current = target.scrollHeight - target.scrollTop - target.clientHeight < 40; };
  return html`<ol class="list lines" id="lines" tabindex="0" ref=${end} onScroll=${scrolled} aria-label="Lines of the session">
    ${items.length ? null : html`<li class="soft">No line yet.</li>`}
    ${items.map((item, number) => html`<li data-entry tabindex="-1" key=${number}><${Entry} item=${item} isText=${isText} jump=${jump && item.k === 'l' ? () => jump(item) : null} /></li>`)}</ol>`;
}

/** The keys of a session: `act` by key. */
export function useSessionKeys(act) {
  const now = useRef(act);
  now.current = act;
  useLayoutEffect(() => {
    const press = (event) => {
      if (/^(INPUT|TEXTAREA|SELECT|BUTTON|SUMMARY|A)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
      const todo = now.current[event.key];
      if (!todo) return;
      event.preventDefault();
      todo();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}
