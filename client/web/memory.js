// Memory: live bytes over time, stacked by code path or by process, where a click shows who holds what at that moment; or
// which addresses were taken, with what splits the free ones.
import * as addresses from './addresses.js';
import { get } from './api.js';
import { element, stack, table } from './dom.js';
import { bytes, count, duration, share, text, timeOfDay } from './format.js';

const { GUTTER, hue } = addresses, FOOT = 22, COLUMNS = 400;
const REFRESH_MS = 10000; // all allocations and frees are read for it
const BY = [['path', 'by code path'], ['process', 'by process'], ['address', 'by address']];

let page = null, by = BY[0][0], canvas, details, said, answer = null, layers = [], asking = null, asked = '', told = 0;
let chosen = null, mouse = null; // a time and a column, of addresses a block and where


function name(layer, got) {
  const [pid, comm] = got.processes[layer.process] ?? ['?', ''];
  const process = `${pid} ${comm}`;
  return by === 'process' ? process : `${layer.where ?? 'unknown code'} · ${process}`;
}

const isDark = () => getComputedStyle(document.documentElement).colorScheme === 'dark';
const colour = (layer) => hue(layer.others ? -1 : layer.place, layer.dark);

// What has no place of its own in the answer is its last layer.
function named(got) {
  const dark = isDark(), { others } = got;
  return [...got.layers.map((layer, place) => ({ ...layer, place, dark, name: name(layer, got) })),
    ...others.layers ? [{ ...others, others: true, name: `${count(others.layers)} others` }] : []];
}

const width = () => canvas.clientWidth - GUTTER;
const toColumn = (x) => Math.max(0, Math.min(answer.columns - 1, Math.floor((x - GUTTER) / width() * answer.columns)));
const toTime = (column) => answer.since + column * answer.step_ns;
const sum = (column) => layers.reduce((all, layer) => all + layer.bytes[column], 0);

const time = (ns) => timeOfDay(ns, page.clock);

function paintLayers(draw, tall) {
  const wide = width() / answer.columns, below = new Array(answer.columns).fill(0);
  for (const layer of layers) {
    draw.fillStyle = colour(layer);
    draw.beginPath();
    draw.moveTo(GUTTER, tall);
    for (let i = 0; i < answer.columns; i++) {
      const y = tall * (1 - 0.95 * (below[i] + layer.bytes[i]) / answer.most);
      draw.lineTo(GUTTER + i * wide, y);
      draw.lineTo(GUTTER + (i + 1) * wide, y);
    }
    for (let i = answer.columns; i-- > 0;) {
      const y = tall * (1 - 0.95 * below[i] / answer.most);
      draw.lineTo(GUTTER + (i + 1) * wide, y);
      draw.lineTo(GUTTER + i * wide, y);
      below[i] += layer.bytes[i];
    }
    draw.fill();
  }
}

function paintTimes(draw, since, until, tall) {
  for (const part of [0, 0.25, 0.5, 0.75])
    draw.fillText(time(since + part * (until - since)), GUTTER + part * width(), tall + 15);
}

function paintHeld(draw, { dim, text }, tall) {
  if (answer.most > 0)
    paintLayers(draw, tall);
  draw.fillStyle = dim;
  for (const part of answer.most > 0 ? [0, 0.25, 0.5, 0.75, 1] : [])
    draw.fillText(bytes(Math.round(answer.most * part)), 6, tall * (1 - 0.95 * part) + (part ? 4 : -2));
  paintTimes(draw, answer.since, toTime(answer.columns), tall);
  draw.strokeStyle = text;
  for (const x of [mouse?.x ?? null, chosen && GUTTER + (chosen - answer.since) / (answer.step_ns * answer.columns) * width()]) {
    if (x === null || x < GUTTER)
      continue;
    draw.beginPath();
    draw.moveTo(Math.round(x) + 0.5, 0);
    draw.lineTo(Math.round(x) + 0.5, tall);
    draw.stroke();
  }
}

function paint() {
  if (!answer || !canvas.isConnected)
    return;
  const ratio = devicePixelRatio || 1, draw = canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
  const colours = Object.fromEntries(['back', 'panel', 'text', 'dim', 'bad'].map((what) => [what, style.getPropertyValue(`--${what}`).trim()]));
  const tall = canvas.clientHeight - FOOT;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  draw.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw.font = '11px system-ui, sans-serif';
  if (answer.panels) {
    addresses.paint(draw, canvas, answer, { ...colours, dark: isDark() }, chosen);
    draw.fillStyle = colours.dim;
    paintTimes(draw, answer.since, answer.until, tall);
  } else {
    paintHeld(draw, colours, tall);
  }
  canvas.dataset.painted = Number(canvas.dataset.painted ?? 0) + 1;
}

function say() {
  if (answer.panels) {
    const block = mouse && addresses.blockAt(canvas, answer, mouse.x, mouse.y);
    said.textContent = block ? addresses.said(answer, block, time) : answer.panels.length ? '' : 'Nothing was held.';
    return;
  }
  const column = mouse === null ? null : toColumn(mouse.x);
  said.textContent = column !== null ? `${time(toTime(column))}: ${bytes(sum(column))}`
    : answer.most > 0 ? `at most ${bytes(answer.most)}, at ${time(answer.most_ns)}` : 'Nothing was held.';
}

function list(rows, heading) {
  const all = rows.reduce((total, row) => total + row.bytes, 0);
  details.replaceChildren(element('h2', {}, heading), element('p', {}, `${bytes(all)} in all`),
    table(rows, [['', mark, 'mark'], ['bytes', (row) => bytes(row.bytes), 'number'],
      ['share', (row) => share(all ? 1e6 * row.bytes / all : 0), 'number'], ['allocations', (row) => text(row.count), 'number'],
      ['', (row) => row.name, 'text']]),
    ...rows.filter((row) => row.stack).slice(0, 8).flatMap((row) => [element('p', {}, `${bytes(row.bytes)} · ${row.name}`), stack(row.stack)]));
}

// The same layer may be in another place in another answer.
const key = (layer) => layer.others ? 'others' : `${layer.process} ${layer.path}`;

function mark(row) {
  const made = element('i', { class: 'mark' }), drawn = layers.find((layer) => key(layer) === key(row));
  made.style.background = drawn ? colour(drawn) : 'transparent';
  return made;
}

function chooseBlock() {
  chosen = addresses.blockAt(canvas, answer, mouse.x, mouse.y);
  if (chosen)
    addresses.describe(details, answer, chosen, time);
  else
    addresses.summary(details, answer, isDark());
  paint();
}

// What is drawn of a column is its moment with the most.
async function choose(column) {
  asking?.abort();
  const mine = asking = new AbortController();
  chosen = toTime(column);
  paint();
  try {
    const got = await get('memory', { since: chosen, until: chosen + answer.step_ns, columns: 1, by, pid: page.pid }, mine.signal);
    list(named(got).map((row) => ({ ...row, bytes: row.bytes[0] })).filter((row) => row.bytes > 0), `At ${time(got.most_ns)}`);
  } catch (error) {
    if (!mine.signal.aborted)
      details.replaceChildren(element('p', { class: 'bad' }, error.message));
  }
}

async function load(signal) {
  let { since } = page.window();
  if (!page.seconds)
    since = (await get('extent', { pid: page.pid }, signal)).since || 1;
  const key = `${by} ${page.pid} ${page.seconds}`;
  if (answer && key === asked && (Date.now() - told < REFRESH_MS || (chosen && by === 'address')))
    return;
  answer = await (by === 'address' ? addresses.load({ since }, page.pid, signal)
    : get('memory', { since, columns: COLUMNS, by, pid: page.pid }, signal));
  if (key !== asked)
    chosen = null;
  asked = key;
  told = Date.now();
  layers = answer.panels ? [] : named(answer);
  say();
  paint();
  if (answer.panels)
    addresses.summary(details, answer, isDark());
  else if (chosen === null)
    details.replaceChildren(element('h2', {}, `Most, in ${duration(answer.step_ns * answer.columns)}`), table(layers, [
      ['', mark, 'mark'], ['at most', (layer) => bytes(layer.most), 'number'],
      ['', (layer) => layer.name, 'text']]), element('p', { class: 'note' }, 'Click on a moment to see who held what then.'));
}

export const memory = {
  name: 'Memory',
  live: true,
  full: true,
  open(opened, root) {
    page = opened;
    answer = chosen = mouse = null;
    said = element('span', { class: 'dim', id: 'said' });
    details = element('aside', { id: 'details' });
    const follow = (at) => { mouse = at; if (answer) { say(); if (!answer.panels) paint(); } };
    canvas = element('canvas', { id: 'held', onpointermove: (event) => follow({ x: Math.max(GUTTER, event.offsetX), y: event.offsetY }),
      onpointerleave: () => follow(null), onclick: () => answer && mouse && (answer.panels ? chooseBlock() : choose(toColumn(mouse.x))) });
    const select = element('select', { id: 'by', onchange: () => { by = BY[select.selectedIndex][0]; chosen = null; page.refresh(); } },
      ...BY.map(([key, title]) => element('option', { selected: key === by }, title)));
    root.replaceChildren(element('div', { class: 'tools' }, select, said), element('div', { class: 'lanes' }, canvas, details));
    new ResizeObserver(paint).observe(canvas);
  },
  repaint() {
    layers = answer && !answer.panels ? named(answer) : [];
    paint();
  },
  close() {
    asking?.abort();
  },
  refresh(opened, root, signal) {
    return load(signal);
  },
};
