// Overview: what devices did, why they were idle, and what took the time, in the window that the header has.
import { query } from './api.js';
import { element, section, stack, table } from './dom.js';
import { bytes, count, duration, share, text } from './format.js';
import * as whatif from './whatif.js';

// Each panel: title, query, its options besides window and process, whether it takes a window, what to draw.
const PANELS = [
  ['Why devices idle', 'idle', { limit: 64 }, true, drawIdle],
  ['Devices', 'devices', { limit: 64 }, false, (answer) => table(answer.rows, [
    ['device', (row) => text(row.device), 'number'],
    ['name', (row) => text(row.name), 'text'],
    ['memory', (row) => bytes(row.memory_bytes), 'number'],
    ['processes', (row) => count(row.processes), 'number'],
    ['pids', (row) => text(row.pids), 'text']])],
  ['Processes', 'processes', { limit: 50 }, true, (answer, page) => table(answer.rows, [
    ['pid', (row) => text(row.pid), 'number'],
    ['program', (row) => text(row.comm), 'text'],
    ['user', (row) => text(row.user), 'text'],
    ['tier', (row) => text(row.tier)],
    ['live', (row) => bytes(row.live_bytes), 'number'],
    ['peak', (row) => bytes(row.peak_bytes), 'number'],
    ['calls', (row) => count(row.calls), 'number'],
    ['errors', (row) => count(row.errors), 'number']], (row) => page.choose(row.pid))],
  ['Top kernels', 'kernels', { limit: 12 }, true, (answer) => table(answer.rows, [
    ['share', (row) => share(row.share), 'number'],
    ['total', (row) => duration(row.total_ns), 'number'],
    ['count', (row) => count(row.count), 'number'],
    ['mean', (row) => duration(row.mean_ns), 'number'],
    ['pid', (row) => text(row.pid), 'number'],
    ['kernel', (row) => text(row.name), 'text'],
    ['where', (row) => text(row.where), 'text']])],
  ['Top waits', 'syncs', { limit: 8 }, true, (answer) => table(answer.rows, [
    ['total', (row) => duration(row.total_ns), 'number'],
    ['calls', (row) => count(row.calls), 'number'],
    ['longest', (row) => duration(row.max_ns), 'number'],
    ['pid', (row) => text(row.pid), 'number'],
    ['call', (row) => text(row.fn), 'text'],
    ['where', (row) => text(row.where), 'text']])],
  ['Leaks', 'leaks', { limit: 6 }, false, drawLeaks],
  ['What is missing', 'loss', { limit: 20 }, true, (answer) => table(answer.rows, [
    ['count', (row) => count(row.count), 'number'],
    ['pid', (row) => text(row.pid), 'number'],
    ['reason', (row) => text(row.reason)],
    ['', (row) => text(row.text), 'text']])],
  ['What tracing costs', 'cost', { limit: 20 }, true, (answer) => table(answer.rows, [
    ['pid', (row) => text(row.pid), 'number'],
    ['program', (row) => text(row.comm), 'text'],
    ['part', (row) => text(row.part)],
    ['cost', (row) => share(row.whole ?? row.cost), 'number'],
    ['budget', (row) => share(row.budget), 'number'],
    ['watched', (row) => share(row.watched), 'number']])],
];

function drawIdle(answer) {
  const devices = new Map();
  for (const row of answer.rows) {
    const key = `${row.pid} ${row.comm} · device ${text(row.device)}`;
    devices.set(key, [...(devices.get(key) ?? []), row]);
  }
  const parts = [...devices].flatMap(([key, rows]) => [
    element('div', {}, key),
    element('div', { class: 'bar' }, ...rows.map((row) => {
      const part = element('span', { class: row.state, title: `${row.state}: ${row.text}, ${duration(row.total_ns)}` });
      part.style.flexGrow = row.share;
      return part;
    })),
    element('div', { class: 'legend' }, ...rows.map((row) => element('span', { title: row.text },
      element('i', { class: row.state }), `${row.state} ${share(row.share)}`)))]);
  return element('div', {}, ...parts);
}

function drawLeaks(answer) {
  return element('div', {}, ...answer.rows.flatMap((row) => [
    element('div', { title: row.why }, `${row.verdict}: ${bytes(row.bytes)} in ${count(row.count)}, the oldest ${duration(row.oldest_ns)} old: ` +
      `${row.where ? `${row.where}, ` : ''}${text(row.fn)}, pid ${row.pid} (${text(row.comm)})`),
    stack(row.stack, 8)]));
}

function shown(title, answer, draw, page) {
  if (answer instanceof Error)
    return section(title, element('p', { class: 'bad' }, answer.message));
  const notes = [];
  if (answer.note)
    notes.push(answer.note);
  if (answer.truncated)
    notes.push('There are more.');
  if (answer.missing && title !== 'What is missing')
    notes.push(answer.missing);
  const rows = answer.rows.length ? draw(answer, page) : element('p', { class: 'dim' }, answer.note ?? 'Nothing.');
  return section(title, rows, answer.rows.length && notes.length ? element('p', { class: 'note' }, notes.join(' ')) : null);
}

export const overview = {
  name: 'Overview',
  live: true,
  repaint: whatif.paint,
  open(page, root) {
    root.replaceChildren(element('div', { class: 'grid' }), whatif.form(page));
  },
  // A panel that is refused says why; that nobody answers at all is the page's to say.
  async refresh(page, root, signal) {
    const answers = await Promise.all(PANELS.map(([, name, options, windowed]) => query(name,
      { ...options, pid: page.pid, ...(windowed ? page.window() : {}) }, signal).catch((error) => error)));
    const failed = answers.filter((answer) => answer instanceof Error);
    if (failed.length === answers.length)
      throw failed[0];
    root.firstElementChild.replaceChildren(...PANELS.map(([title, , , , draw], i) => shown(title, answers[i], draw, page)));
  },
};
