// The markdown of a model's answer, as far as answers use it. All of it stays text: no link, image or HTML comes of it.
import { useMemo } from '../vendor/hooks.js';
import { html, prose, visible } from './ui.js';

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^#{1,6}\s+(.*?)[\s#]*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,}\s*$/;
// Each mark looks only so far for its end, so that no text takes long.
const INLINE = /(?<!`)(`+)(?!`)(.{1,500}?)(?<!`)\1(?!`)|\*\*(?=\S)(.{1,500}?\S?)(?<=\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*]{1,500})(?<=\S)\*(?![\w*])/gs;

/** Pieces of a paragraph: code, strong and stressed text. */
export function inline(text) {
  const parts = [];
  let from = 0;
  for (const { 0: all, 2: code, 3: strong, 4: stressed, index } of text.matchAll(INLINE)) {
    parts.push(prose(text.slice(from, index)));
    if (code !== undefined) parts.push(html`<code>${visible(code.replace(/^ (.*) $/s, '$1'))}</code>`);
    else parts.push(strong !== undefined ? html`<strong>${inline(strong)}</strong>` : html`<em>${inline(stressed)}</em>`);
    from = index + all.length;
  }
  return [...parts, prose(text.slice(from))];
}

/** The blocks of a text, in order: each a kind and its lines. A block of code that isn't closed yet goes to the end. */
export function blocks(text) {
  const found = [];
  let fence = null;
  const add = (kind, line) => {
    if (found.at(-1)?.kind === kind) found.at(-1).lines.push(line);
    else found.push({ kind, lines: [line] });
  };
  for (const line of text.split('\n')) {
    const mark = line.match(FENCE)?.[1];
    if (fence) {
      if (mark?.startsWith(fence) && !line.trim().slice(mark.length)) fence = null;
      else found.at(-1).lines.push(line);
    } else if (mark) {
      fence = mark;
      found.push({ kind: 'code', lines: [] });
    } else if (!line.trim()) add('space', line);
    else if (RULE.test(line)) add('rule', line);
    else if (HEADING.test(line)) found.push({ kind: 'heading', lines: [line.match(HEADING)[1]] });
    else if (ITEM.test(line)) add('items', line);
    else if (found.at(-1)?.kind === 'items' && /^\s/.test(line)) found.at(-1).lines[found.at(-1).lines.length - 1] += `\n${line}`;
    else if (line.startsWith('>')) add('quote', line.replace(/^> ?/, ''));
    else if (line.startsWith('|')) add('table', line);
    else add('text', line);
  }
  return found;
}

function Item({ line }) {
  const [, space, mark, text] = line.match(/^(\s*)(\S+)\s+([^]*)$/);
  return html`<li>${space}${/\d/.test(mark) ? mark : '•'} ${inline(text)}</li>`;
}

function Block({ kind, lines }) {
  switch (kind) {
    case 'space': return null;
    case 'code': case 'table': return html`<pre tabindex="0">${visible(lines.join('\n'))}</pre>`;
    case 'heading': return html`<p><strong>${inline(lines[0])}</strong></p>`;
    case 'items': return html`<ul>${lines.map((line) => html`<${Item} line=${line} />`)}</ul>`;
    case 'quote': return html`<blockquote>${inline(lines.join('\n'))}</blockquote>`;
    case 'rule': return html`<hr />`;
    default: return html`<p>${inline(lines.join('\n'))}</p>`;
  }
}

/** Drawn anew only when the text changes: a list of answers is drawn with each frame. */
export function Markdown({ text }) {
  return useMemo(() => html`<div class="answer">${blocks(text ?? '').map(({ kind, lines }) => html`<${Block} kind=${kind} lines=${lines} />`)}</div>`, [text]);
}
