// The files of a canvas, and an audit of it that is noted in the log.
import { useRef, useState } from '../../vendor/hooks.js';
import { api, authorised, download } from '../api.js';
import { say } from '../store.js';
import { Failed, None, html, time, useLoaded, useOnline, visible } from '../ui.js';

export function Files({ id, rev, hash, canWrite }) {
  const can = useOnline() && canWrite;
  const field = useRef(null);
  const [failed, fail] = useState(null);
  const base = `/canvas/${encodeURIComponent(id)}`;
  const { value, error, reload } = useLoaded(() => (rev ? api('GET', `${base}/artifacts`) : Promise.resolve({ items: [] })), `${id} ${rev > 0}`);
  const add = async () => {
    const [file] = field.current.files;
    if (!file) return;
    const headers = { 'Content-Type': file.type || 'application/octet-stream', 'X-Artifact-Name': file.name };
    await authorised('POST', `${base}/artifacts`, { raw: file, headers }).then(() => { fail(null); say('The file is stored.'); return reload(); }, fail);
    field.current.value = '';
  };
  const audit = () => api('POST', `${base}/audits`, { kind: 'review', report: { rev, state_hash: hash ?? null } })
    .then(() => { fail(null); say('The review is noted.'); }, fail);
  if (!rev) return null;
  return html`<h2>Files</h2>
    <${Failed} error=${error ?? failed} retry=${error ? reload : null} />
    <p class="row"><label for="file">Add a file</label><input id="file" type="file" ref=${field} disabled=${!can} onChange=${add} />
      <button disabled=${!can} onClick=${audit}>Note that I reviewed revision ${rev}</button></p>
    ${value?.items.length ? html`<ul class="list" id="files">${value.items.map((it) => html`<li key=${it.sha256}>
      <button onClick=${() => download(`${base}/artifacts/${it.artifact_id}`, it.name).catch(fail)}>${visible(it.name)}</button>
      <span class="small soft"> ${it.bytes} bytes, by ${visible(it.by)}, ${time(it.at)}</span></li>`)}</ul>` : html`<${None} isKnown=${value} error=${error}>No files.<//>`}`;
}
