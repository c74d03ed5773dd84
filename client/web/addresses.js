// Addresses: which were taken when, by the code path that took them, as a map for each process and device; and how fragmented
// its pools are. A part of the memory view.
import { get, query } from './api.js';
import { element, stack, table } from './dom.js';
import { bytes, count, duration, share, text } from './format.js';

const TITLE = 20, FOOT = 22, GAP = 6, BLOCK = 5; // BLOCK: numbers of one in the answer
const SEGMENT = -2;

export const GUTTER = 80;
export const hue = (place, dark) => place < 0 ? 'hsl(0 0% 55%)' : `hsl(${place * 137 % 360} 50% ${dark ? 46 : 62}%)`;

export async function load(window, pid, signal) {
  const [answer, pools, splits] = await Promise.all([get('addresses', { ...window, pid }, signal),
    ...[0, 1].map((by) => query('fragmentation', { pid, by, limit: 12 }, signal).catch((error) => ({ rows: [], note: error.message })))]);
  return { ...answer, pools, splits };
}

// Where each panel is, and what is on it: x and y in units of the answer.
function places(canvas, answer) {
  const tall = (canvas.clientHeight - FOOT) / Math.max(answer.panels.length, 1), units = (answer.until - answer.since) / answer.unit_ns;
  return answer.panels.map((panel, i) => {
    const top = i * tall + TITLE, high = tall - TITLE - GAP;
    return { panel, top, high, toX: (unit) => GUTTER + unit / units * (canvas.clientWidth - GUTTER), toY: (place) => top + high * (1 - place / panel.bytes) };
  });
}

function title(answer, panel) {
  const [pid, comm] = answer.processes[panel.process] ?? ['?', ''];
  const device = panel.device < 0 ? 'an unknown device' : `GPU ${panel.device}`;
  const drawn = panel.blocks.length / BLOCK, left = panel.blocks_left_out ? `, ${count(panel.blocks_left_out)} smaller ones are left out` : '';
  return `${pid} ${comm} · ${device} · ${bytes(panel.bytes)} of addresses · ${count(drawn)} block${drawn === 1 ? '' : 's'}${left}`;
}

function paintPanel(draw, { panel, top, high, toX, toY }, answer, canvas, colours) {
  const { blocks, failed } = panel;
  draw.fillStyle = colours.panel;
  draw.fillRect(GUTTER, top, canvas.clientWidth - GUTTER, high);
  for (let i = 0; i < blocks.length; i += BLOCK) { // so low that those with gaps between them leave gaps
    const x = toX(blocks[i]), wide = Math.max(toX(blocks[i + 1]) - x, 1), y = toY(blocks[i + 2] + blocks[i + 3]), tall = Math.max(toY(blocks[i + 2]) - y, 0.05);
    if (blocks[i + 4] === SEGMENT) {
      draw.globalAlpha = 0.5;
      draw.strokeStyle = colours.dim;
      draw.strokeRect(x + 0.5, y + 0.5, wide - 1, Math.max(tall - 1, 0.5));
      draw.globalAlpha = 1;
      continue;
    }
    draw.fillStyle = hue(blocks[i + 4], colours.dark);
    draw.fillRect(x, y, wide, tall);
    if (tall > 3 && wide > 3) { // so that neighbours of one code path can be told apart
      draw.strokeStyle = colours.back;
      draw.strokeRect(x + 0.25, y + 0.25, wide - 0.5, tall - 0.5);
    }
  }
  draw.fillStyle = colours.bad;
  for (let i = 0; i < failed.length; i += 2)
    draw.fillRect(toX(failed[i]), top, 1.5, high);
  draw.fillStyle = colours.text;
  draw.fillText(title(answer, panel), GUTTER, top - 6);
  draw.fillStyle = colours.dim;
  for (const part of high > 60 ? [0, 0.5, 1] : [1])
    draw.fillText(bytes(Math.round(panel.bytes * part)), 6, toY(panel.bytes * part) + (part === 1 ? 9 : part ? 4 : -1));
}

export function paint(draw, canvas, answer, colours, chosen) {
  for (const place of places(canvas, answer)) {
    paintPanel(draw, place, answer, canvas, colours);
    if (chosen?.panel !== place.panel)
      continue;
    const y = place.toY(chosen.place + chosen.bytes), x = place.toX(chosen.from);
    draw.strokeStyle = colours.text;
    draw.lineWidth = 2;
    draw.strokeRect(x, y, Math.max(place.toX(chosen.to) - x, 2), Math.max(place.toY(chosen.place) - y, 2));
    draw.lineWidth = 1;
  }
}

// A smaller block lies above those that it is in.
export function blockAt(canvas, answer, x, y) {
  const at = places(canvas, answer).find(({ top, high }) => y >= top && y <= top + high);
  let best = null;
  for (let i = 0; at && i < at.panel.blocks.length; i += BLOCK) {
    const [from, to, place, size, path] = at.panel.blocks.slice(i, i + BLOCK);
    if (x >= at.toX(from) - 1 && x <= at.toX(to) + 1 && y >= at.toY(place + size) - 1 && y <= at.toY(place) + 1 && (!best || size < best.bytes))
      best = { panel: at.panel, from, to, place, bytes: size, path };
  }
  return best;
}

function address({ panel, place }) {
  const band = panel.bands.findLast(([, below]) => below <= place);
  return band ? `0x${(BigInt(band[0]) + BigInt(Math.round(place - band[1]))).toString(16)}` : '-';
}

function name({ panel, path }) {
  if (path === SEGMENT)
    return 'a segment, which blocks lie in';
  return path < 0 ? 'other code' : panel.stacks[path].where ?? 'unknown code';
}

export const said = (answer, block, time) => `${bytes(block.bytes)} at ${address(block)}, from ${time(answer.since + block.from * answer.unit_ns)} on: ${name(block)}`;

export function describe(details, answer, block, time) {
  const until = answer.since + block.to * answer.unit_ns, held = (block.to - block.from) * answer.unit_ns;
  details.replaceChildren(element('h2', {}, bytes(block.bytes)), table([
    ['of', name(block)], ['address', address(block)], ['from', block.from ? time(answer.since + block.from * answer.unit_ns) : 'before this'],
    ['until', until + answer.unit_ns >= answer.until ? 'still held' : time(until)], ['for', duration(held)]],
  [['', (row) => row[0]], ['', (row) => row[1], 'text']]), stack(block.panel.stacks[block.path]?.stack, 10) ?? '');
}

function pool(row) {
  const most = row.largest_bytes === null ? '' : `, in ${count(row.pieces)} pieces of at most ${bytes(row.largest_bytes)}`;
  const lost = row.unusable ? `; ${share(row.unusable)} is of no use for what was asked for lately` : '';
  return element('li', {}, element('b', {}, `${share(row.index)} · ${row.pool ?? row.kind} · ${row.pid} ${row.comm}`),
    element('div', {}, `${bytes(row.free_bytes)} free of ${bytes(row.reserved_bytes)}${most}${lost}`));
}

function holders(answer, panel, dark) {
  const [pid, comm] = answer.processes[panel.process] ?? ['?', ''];
  const rows = panel.stacks.map((path, place) => {
    const mark = element('i', { class: 'mark' });
    mark.style.background = hue(place, dark);
    return [mark, path.where ?? 'unknown code'];
  });
  return [element('h3', {}, `${pid} ${comm} · GPU ${panel.device < 0 ? '?' : panel.device}`), table(rows, [['', (row) => row[0], 'mark'], ['', (row) => row[1], 'text']])];
}

// Free memory that lies between blocks, now or at the end of the recording.
export function summary(details, answer, dark) {
  const { panels, pools, splits } = answer, split = pools.rows.filter((row) => row.index), packed = pools.rows.filter((row) => row.index === 0).length;
  const splitters = splits.rows.filter((row) => row.splits).slice(0, 6);
  details.replaceChildren(element('h2', {}, 'How fragmented it is now'),
    element('ul', { class: 'plain' }, ...split.map(pool)),
    element('p', { class: 'note' }, pools.note || (split.length ? 'Index: 0 % is one free piece, near 100 % a checkerboard. ' : '') +
      (packed ? `${count(packed)} ${split.length ? 'other ' : ''}${packed === 1 ? 'pool is' : 'pools are'} packed.` : '')),
    ...splitters.length ? [element('h2', {}, 'What splits it'), element('ul', { class: 'plain' }, ...splitters.map((row) => element('li', {},
      `${bytes(row.split_bytes)} lie beside ${count(row.splits)} blocks of `, element('b', {}, text(row.where)), `, pid ${row.pid}, the oldest ${duration(row.oldest_ns)} old`)))] : [],
    element('h2', {}, 'Who holds it'), ...panels.flatMap((panel) => holders(answer, panel, dark)),
    element('p', { class: 'note' }, 'Time from left to right, addresses upwards. Click on a block to see who allocated it.'));
}
