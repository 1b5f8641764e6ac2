// The screen of a shared session, in a frame without a token, a network or a storage: what strangers' programs print is drawn here.
// It is a plain script, because modules need CORS from an origin like this one. It takes messages by a port and answers with its size.
'use strict';

(() => {
  let port = null;
  let term = null;
  let isFitted = true;
  const box = document.getElementById('screen');
  const theme = { background: '#101413', foreground: '#e8ecea', cursor: '#6fd3c2', selectionBackground: '#3a5f58' };

  /** Scales the screen to the frame's width, or leaves it as it is, and says how high it became. */
  function place() {
    const drawn = box.querySelector('.xterm');
    const rows = box.querySelector('.xterm-screen');
    if (!drawn || !rows) return;
    const [width, height] = [rows.offsetWidth + 8, rows.offsetHeight + 8];
    const scale = isFitted ? Math.min(1, document.documentElement.clientWidth / width) : 1;
    drawn.style.transform = `scale(${scale})`;
    drawn.style.width = `${width}px`;
    box.style.height = `${Math.ceil(height * scale) + (isFitted ? 0 : 20)}px`;
    box.style.overflow = isFitted ? 'hidden' : 'auto';
    port.postMessage({ k: 'size', height: Math.ceil(height * scale) + (isFitted ? 0 : 20) });
  }

  function begin({ cols, rows, screen, isRead }) {
    if (term) term.dispose();
    term = new Terminal({
      cols, rows, theme, disableStdin: true, scrollback: 2000, cursorBlink: false, fontSize: 14, logLevel: 'off',
      screenReaderMode: Boolean(isRead), fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace', minimumContrastRatio: 4.5,
    });
    term.open(box);
    // Nobody types here, and Tab must lead past it.
    term.textarea.tabIndex = -1;
    term.textarea.readOnly = true;
    term.write(screen || '', () => { place(); port.postMessage({ k: 'drawn' }); });
  }

  const actions = {
    begin,
    write: ({ d }) => term && term.write(d, () => port.postMessage({ k: 'drawn' })),
    resize: ({ cols, rows }) => { if (term) { term.resize(cols, rows); place(); } },
    fit: ({ on }) => { isFitted = on; place(); },
    // What the screen shows, as text: for tests, and for whoever copies it.
    read: () => {
      const lines = [];
      const buffer = term.buffer.active;
      for (let row = 0; row < term.rows; row += 1) lines.push(buffer.getLine(buffer.baseY + row)?.translateToString(true) ?? '');
      port.postMessage({ k: 'text', text: lines.join('\n').trimEnd(), cursor: [buffer.cursorX, buffer.cursorY], isAlternate: buffer.type === 'alternate' });
    },
  };

  addEventListener('message', (event) => {
    if (event.source !== parent || port || !event.ports[0]) return;
    [port] = event.ports;
    port.onmessage = ({ data }) => actions[data.k]?.(data);
    port.postMessage({ k: 'ready' });
  });
  // Nobody types here: keys go to the page, but for those of the browser's own, such as a copy.
  addEventListener('keydown', ({ key, ctrlKey, metaKey, altKey }) => { if (port && !ctrlKey && !metaKey && !altKey) port.postMessage({ k: 'key', key }); }, true);
  addEventListener('resize', () => { if (term && port) place(); });
})();
