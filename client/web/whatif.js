// What if: the emulator's options as a form; streams as recorded and, below, as predicted, on one scale of time.
import { get } from './api.js';
import { element, section } from './dom.js';
import { count, duration, share } from './format.js';

const GUTTER = 120, ROW = 14, GAP = 22, SPAN = 5;
// Each field: the option of `tsctl replay`, what stands before it, an example; without one it is on or off.
const FIELDS = [['scale', 'time of', 'kernel=gemm:0.5'], ['drop', 'without', 'copy=DtoH'], ['copy-bandwidth', 'copies are faster by', '2x'],
  ['launch-latency', 'a launch takes', '1us'], ['streams', 'streams of each device', '4'], ['devices', 'devices of each process', '2'],
  ['no-sync', 'nobody waits for the device'], ['graph', 'launches are graphs']];

let page = null, fields = [], said, canvas, shown = null, asking = null;

const colour = ([kind, name], dark) => {
  let hash = 7;
  for (const character of name)
    hash = (hash * 31 + character.codePointAt(0)) % 3600;
  return kind === 'kernel' ? `hsl(${hash / 10} 48% ${dark ? 58 : 52}%)` : kind === 'copy' ? '#2f6fbf' : '#8a8f98';
};

const title = ({ device, id }) => `${device >= 0 ? `GPU ${device}` : 'GPU ?'} ${id < 2 ** 32 ? `stream ${id}` : 'new stream'}`;

function paintSide(draw, side, y, style) {
  const scale = (canvas.clientWidth - GUTTER) / (shown.columns * 8), dark = style.colorScheme === 'dark';
  for (const lane of side.lanes) {
    draw.fillStyle = style.getPropertyValue('--dim');
    draw.fillText(title(lane), 4, y + ROW - 4);
    for (let i = 0; i < lane.spans.length; i += SPAN) {
      const bright = Math.abs(lane.spans[i + 4]) / 1000;
      draw.globalAlpha = 0.3 + 0.7 * bright;
      draw.fillStyle = colour(side.names[lane.spans[i + 2]], dark);
      draw.fillRect(GUTTER + lane.spans[i] * scale, y, Math.max(lane.spans[i + 1] * scale, 0.7), ROW - 2);
    }
    draw.globalAlpha = 1;
    y += ROW;
  }
  return y;
}

export function paint() {
  if (!shown || !canvas.isConnected)
    return;
  const ratio = devicePixelRatio || 1, draw = canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
  const height = 2 * GAP + (shown.recorded.lanes.length + shown.predicted.lanes.length) * ROW;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(height * ratio);
  draw.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw.font = '11px system-ui, sans-serif';
  let y = 0;
  for (const name of ['recorded', 'predicted']) {
    draw.fillStyle = style.getPropertyValue('--text');
    draw.fillText(`${name}: ${duration(shown[`${name}_ns`])}`, 4, y + 15);
    y = paintSide(draw, shown[name], y + GAP, style);
  }
  canvas.dataset.painted = Number(canvas.dataset.painted ?? 0) + 1;
}

function tell() {
  const { recorded_ns: before, predicted_ns: after, off_ns: off, changes, untimed } = shown;
  const words = [`${duration(before)} → ${duration(after)}: ${(before / Math.max(after, 1)).toFixed(2)} times as fast.`];
  if (changes.length)
    words.push(`Changed: ${changes.map(([option, number]) => `${option} (${count(number)})`).join(', ')}.`);
  words.push(`Without changes the emulator is ${share(1e6 * Math.abs(off) / Math.max(before, 1))} off.`);
  const left = Math.max(shown.recorded.left_out, shown.predicted.left_out);
  if (left)
    words.push(`${count(left)} streams are left out.`);
  if (untimed)
    words.push(`${count(untimed)} operations have no exact times and count for nothing: record with the exact tier.`);
  said.textContent = words.join(' ');
}

async function predict(event) {
  event.preventDefault();
  asking?.abort();
  const mine = asking = new AbortController(), asked = {};
  for (const [option, input] of fields)
    if (input.type === 'checkbox' ? input.checked : input.value.trim())
      asked[option] = input.type === 'checkbox' ? 'on' : input.value.trim();
  said.className = 'dim';
  said.textContent = 'The emulator runs …';
  try {
    shown = await get('whatif', { ...asked, ...page.window(), pid: page.pid, columns: 600 }, mine.signal);
    tell();
    paint();
  } catch (error) {
    if (mine.signal.aborted)
      return;
    said.className = 'bad';
    said.textContent = error.message;
  }
}

export function form(opened) {
  page = opened;
  shown = null;
  fields = FIELDS.map(([option, , example]) => [option, element('input', example ? { type: 'text', id: `whatif-${option}`, placeholder: example, size: 14 }
    : { type: 'checkbox', id: `whatif-${option}` })]);
  said = element('p', { id: 'predicted', class: 'dim' }, 'How long what was recorded would take.');
  canvas = element('canvas', { id: 'whatif' });
  new ResizeObserver(paint).observe(canvas);
  return section('What if', element('form', { class: 'whatif', onsubmit: predict },
    ...FIELDS.map(([, text], i) => element('label', {}, `${text} `, fields[i][1])), element('button', {}, 'Predict')), said, canvas);
}
