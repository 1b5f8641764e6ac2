// Asking the model, and following its runs: text, thoughts, calls, cost. A run goes on when the page is left.
import { useEffect, useLayoutEffect, useRef, useState } from '../../vendor/hooks.js';
import { api, authorised } from '../api.js';
import { frames, pause, untilOffline } from '../stream.js';
import { say, useStore } from '../store.js';
import { refresh } from '../refresh.js';
import { Question } from './inbox.js';
import { Failed, None, Title, html, prose, time, useEvents, useLoaded, useOnline, visible } from '../ui.js';

export function Ask({ conversation }) {
  const online = useOnline();
  const [message, write] = useState('');
  const [error, fail] = useState(null);
  const isSending = useRef(false);
  const [isBusy, work] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    if (isSending.current) return;
    isSending.current = true;
    work(true);
    try {
      const body = conversation ? { message, conversation_id: conversation } : { message };
      const { run_id } = await api('POST', '/chat', body, { headers: { Prefer: 'respond-async' } });
      location.hash = `#/runs/${run_id}`;
    } catch (wrong) { fail(wrong); }
    isSending.current = false;
    work(false);
  };
  return html`<form onSubmit=${send}>
    <label for="message">${conversation ? 'Continue' : 'Ask the model'}</label>
    <textarea id="message" required value=${message} onInput=${(event) => write(event.target.value)}></textarea>
    <p class="row"><button class="main" disabled=${!online || isBusy || !message.trim()}>Ask</button></p>
    <${Failed} error=${error} />
  </form>`;
}

export function Runs() {
  const { value, error, reload } = useLoaded(() => api('GET', '/runs?limit=100'), '');
  useEvents(/^run\./, reload);
  return html`<${Title}>Runs<//>
    <${Ask} />
    <${Failed} error=${error} retry=${reload} />
    ${value?.items.length ? null : html`<${None} isKnown=${value} error=${error}>No runs yet.<//>`}
    <ul class="list">${value?.items.map((run) => html`<li data-entry tabindex="-1"><span class="badge">${run.state}</span>
      ${' '}<a href=${`#/runs/${run.run_id}`}>${visible(run.question).slice(0, 160) || run.run_id}</a>
      ${' '}<span class="soft small">${visible(run.user)}, ${time(run.started_at)}</span></li>`)}</ul>`;
}

/** A run's events, folded into what is shown. */
export function fold(state, event) {
  const calls = (id, change) => state.calls.map((call) => (call.id === id && !call.result ? { ...call, ...change } : call));
  switch (event.event) {
    case 'text': return { ...state, text: state.text + event.text };
    case 'text_so_far': return { ...state, text: event.text };
    case 'thought': return { ...state, thought: state.thought + event.text };
    case 'notice': return { ...state, notices: [...state.notices, event.text] };
    case 'tool_requested': return { ...state, calls: [...state.calls, { id: event.id, tool: event.tool, intent: event.intent }] };
    case 'tool_approved': return { ...state, calls: calls(event.id, { verdict: 'approved' }) };
    case 'tool_denied': return { ...state, calls: calls(event.id, { verdict: `denied: ${event.why}` }) };
    case 'tool_done': return { ...state, calls: calls(event.id, { result: event.result, ms: event.duration_ms }) };
    case 'usage': return { ...state, tokens: state.tokens + event.input_tokens + event.output_tokens, cost: state.cost + (event.cost_usd ?? 0) };
    case 'answered': case 'cancelled': case 'failed':
      return { ...state, text: event.text || state.text, end: event.event, why: event.message };
    default: return state;
  }
}

const EMPTY = { text: '', thought: '', notices: [], calls: [], tokens: 0, cost: 0, end: null, why: null };

function Call({ call }) {
  const state = call.verdict?.startsWith('denied') ? '⊘ denied' : call.result ? (call.result.success ? '✓ done' : '✕ failed') : '… running';
  return html`<section class="card" aria-label=${`Call of ${visible(call.tool)}`}>
    <div class="row"><strong>${visible(call.tool)}</strong><span class="badge">${state}</span>
      ${call.ms === undefined ? null : html`<span class="soft small">${call.ms} ms</span>`}</div>
    <p>${visible(call.intent)}</p>
    ${call.verdict ? html`<p class="small">${visible(call.verdict)}</p>` : null}
    ${call.result ? html`<details><summary>Result</summary><pre tabindex="0">${visible(call.result.output || call.result.error?.message)}</pre></details>
      ${call.result.receipt_id ? html`<p class="small soft">Receipt ${call.result.receipt_id}</p>` : null}` : null}
  </section>`;
}

export function Run({ at }) {
  const [id] = at;
  const online = useOnline();
  const [shown, show] = useState(EMPTY);
  const [isOver, close] = useState(false);
  // The conversation is in the row only when the stream has ended, a moment after the answer.
  const path = encodeURIComponent(id);
  const row = useLoaded(() => api('GET', `/runs/${path}`), `${shown.end} ${isOver}`);
  const questions = (useStore((state) => state.questions) ?? []).filter((it) => it.run_id === id);
  useEffect(() => {
    const left = new AbortController();
    let after = null;
    let state = EMPTY;
    let spoken = 0;
    show(EMPTY);
    close(false);
    (async () => {
      for (let wait = 500; !left.signal.aborted && !state.end; wait = Math.min(wait * 2, 8_000)) {
        const ended = untilOffline(left.signal);
        try {
          const headers = after ? { 'Last-Event-ID': after } : {};
          const response = await authorised('GET', `/sse/runs/${path}`, { headers, signal: ended.signal });
          await frames(response, (frame) => {
            if (frame.event === 'system') return;
            state = fold(state, frame.data);
            after = frame.id ?? after;
            show(state);
            if (Date.now() - spoken > 2_000 && frame.event === 'text') { spoken = Date.now(); say(state.text.slice(-200)); }
          });
          wait = 250;
        } catch (error) {
          if (left.signal.aborted || error.status === 404) return;
        }
        ended.abort();
        if (!state.end) await pause(wait);
      }
      if (!state.end || left.signal.aborted) return;
      say(`The run ended: ${state.end}`);
      close(true);
    })();
    return () => left.abort();
  }, [id]);
  useLayoutEffect(() => {
    let isArmed = false;
    const press = (event) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      if (isArmed && event.key === 's' && !event.ctrlKey && !event.metaKey && !event.altKey) stop();
      isArmed = event.key === 'Escape';
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [id]);
  const stop = () => api('POST', `/runs/${path}/cancel`, {}).catch(() => null);
  if (row.error?.status === 404) {
    return html`<${Title}>Run<//><p class="notice">There is no such run, or it isn't one of this project. <a href="#/runs">All runs</a></p>`;
  }
  const state = shown.end ?? (questions.length ? 'waiting for a question' : 'running');
  return html`<${Title}>Run<//>
    <${Failed} error=${row.error} retry=${row.reload} />
    ${row.value ? html`<div class="card"><p class="answer">${prose(row.value.question)}</p>
      <p class="soft small">${visible(row.value.user)}, ${time(row.value.started_at)}</p></div>` : null}
    ${row.value || shown.end ? html`<p class="row"><span class="badge" id="state">${state}</span>
      ${shown.end ? null : html`<button class="danger" disabled=${!online} onClick=${stop}>Stop (Esc, then s)</button>`}
      ${shown.tokens ? html`<span class="soft small">${shown.tokens} tokens${shown.cost ? `, ${shown.cost.toFixed(4)} US$` : ''}</span>` : null}</p>` : null}
    ${shown.why ? html`<p class="notice bad">${visible(shown.why)}</p>` : null}
    ${questions.map((it) => html`<${Question} key=${it.question_id} question=${it} done=${() => refresh().catch(() => null)} />`)}
    ${shown.notices.length ? html`<ul class="list small soft">${shown.notices.map((text) => html`<li>${visible(text)}</li>`)}</ul>` : null}
    ${shown.thought ? html`<details><summary>Thoughts</summary><p class="answer soft">${prose(shown.thought)}</p></details>` : null}
    ${shown.calls.map((call, number) => html`<${Call} key=${number} call=${call} />`)}
    ${shown.text ? html`<div class="card answer" id="answer">${prose(shown.text)}</div>` : null}
    ${shown.end && row.value?.conversation_id ? html`<${Ask} conversation=${row.value.conversation_id} />` : null}`;
}
