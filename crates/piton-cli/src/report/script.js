'use strict';
(() => {
  const tip = document.getElementById('tip');
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const digits = (v) => (v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0));
  const scaled = (v, base, units) => {
    let i = 0;
    while (v >= base && i < units.length - 1) { v /= base; i += 1; }
    return (i === 0 ? Math.round(v) : digits(v)) + ' ' + units[i];
  };
  const bytes = (v) => scaled(v, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
  const time = (v) => scaled(v, 1000, ['ns', 'us', 'ms', 's']);
  const shown = {
    number: (v) => (Number.isInteger(v) ? v.toLocaleString('en').replaceAll(',', '\u202f') : v.toPrecision(3)),
    bytes, nanoseconds: time, share: (v) => (v * 100).toFixed(1) + ' %',
  };
  const showTip = (text, x, y) => {
    tip.textContent = text;
    tip.style.visibility = 'visible';
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - box.width - 12 : x + 16;
    tip.style.left = Math.max(4, left) + 'px';
    tip.style.top = Math.min(y + 14, innerHeight - box.height - 4) + 'px';
  };
  const hideTip = () => { tip.style.visibility = 'hidden'; };

  // Charts: values under the pointer.
  for (const svg of document.querySelectorAll('svg[data-chart]')) {
    const chart = JSON.parse(svg.dataset.chart);
    const cross = svg.querySelector('.cross');
    const [low, high] = chart.range;
    const nearest = (points, x) => points.reduce((best, p) => (Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best));
    svg.addEventListener('pointermove', (event) => {
      const box = svg.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const x = low + ((at - chart.left) / (chart.right - chart.left)) * (high - low);
      if (x < low || x > high) { hideTip(); cross.style.visibility = 'hidden'; return; }
      cross.setAttribute('x1', at); cross.setAttribute('x2', at);
      cross.style.visibility = 'visible';
      const lines = chart.series.filter((s) => s[1].length).map((s) => s[0] + ': ' + shown[chart.y](nearest(s[1], x)[1]));
      const first = chart.series.find((s) => s[1].length);
      showTip([shown[chart.x](nearest(first[1], x)[0]), ...lines].join('\n'), event.clientX, event.clientY);
    });
    svg.addEventListener('pointerleave', () => { hideTip(); cross.style.visibility = 'hidden'; });
  }

  // The timeline.
  const source = document.getElementById('timeline-data');
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const canvas = document.getElementById('timeline');
  const overview = document.getElementById('overview');
  const [first, last] = data.window;
  const LANE = 24, HEAD = 26, AXIS = 24;
  const rows = [], lanes = [];
  for (const device of data.devices) {
    rows.push({ head: device.name, height: HEAD });
    for (const lane of device.lanes) {
      let start = 0, longest = 0;
      const spans = lane.spans.map(([delta, length, kind, name, size]) => {
        start += delta; longest = Math.max(longest, length);
        return { start, end: start + length, kind, name: data.names[name], size };
      });
      rows.push({ lane: lane.name, spans, longest, height: LANE });
      lanes.push(rows[rows.length - 1]);
    }
  }
  const initialView = () => {
    const marks = data.steps;
    if (marks.length < 3) return [first, last];
    const i = Math.floor(marks.length / 2) - 1;
    const room = (marks[i + 1][0] - marks[i][0]) * 0.06;
    return [Math.max(first, marks[i][0] - room), Math.min(last, marks[i + 1][0] + room)];
  };
  let [from, to] = initialView();
  let colours, narrow, gutter, width;

  const fit = (element, height) => {
    const ratio = devicePixelRatio || 1;
    const w = element.clientWidth;
    element.style.height = height + 'px';
    element.width = Math.round(w * ratio); element.height = Math.round(height * ratio);
    const context = element.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = '12px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    return [context, w];
  };
  const x = (t) => gutter + ((t - from) / (to - from)) * (width - gutter);
  const clip = (c, text, room) => {
    if (c.measureText(text).width <= room) return text;
    let end = text.length;
    while (end > 1 && c.measureText(text.slice(0, end) + '…').width > room) end -= 1;
    return end > 1 ? text.slice(0, end) + '…' : '';
  };
  const firstVisible = (row) => {
    let low = 0, high = row.spans.length;
    const t = from - row.longest;
    while (low < high) { const mid = (low + high) >> 1; if (row.spans[mid].start < t) low = mid + 1; else high = mid; }
    return low;
  };
  const drawSpans = (c, row, top) => {
    let edge = -1, edgeKind = -1;
    for (let i = firstVisible(row); i < row.spans.length && row.spans[i].start < to; i += 1) {
      const s = row.spans[i];
      if (s.end < from) continue;
      const left = Math.max(gutter, x(s.start)), right = Math.max(left + 1, Math.min(width, x(s.end)));
      if (right <= edge + 0.5 && s.kind === edgeKind) continue;
      c.fillStyle = colours.kinds[s.kind];
      const gap = right - left > 3 ? 0.75 : 0;
      c.fillRect(left, top + 3, right - left - gap, LANE - 6);
      edge = right; edgeKind = s.kind;
      if (right - left > 26) {
        c.fillStyle = s.kind === 6 ? colours.muted : colours.card;
        c.fillText(clip(c, s.name, right - left - 8), left + 4, top + LANE / 2);
      }
    }
  };
  // From the end of what was waited for to the end of the wait. Many of them at once tell nothing: drawn when few are in view.
  const drawArrows = (c) => {
    const seen = data.arrows.filter(([, start, , end]) => end >= from && start <= to);
    if (seen.length > 200) return;
    c.strokeStyle = c.fillStyle = colours.text;
    c.globalAlpha = 0.55; c.lineWidth = 1;
    for (const [source, start, target, end] of seen) {
      const a = lanes[source], b = lanes[target];
      if (!a || !b) continue;
      const left = x(start), right = x(end), up = a.top > b.top;
      if (left < gutter || right < gutter || right > width) continue;
      const y0 = a.top + (up ? 3 : LANE - 3), y1 = b.top + (up ? LANE - 3 : 3), bend = (y1 - y0) / 2;
      c.beginPath(); c.moveTo(left, y0); c.bezierCurveTo(left, y0 + bend, right, y1 - bend, right, y1); c.stroke();
      const tip = up ? 4 : -4;
      c.beginPath(); c.moveTo(right, y1); c.lineTo(right - 2.5, y1 + tip); c.lineTo(right + 2.5, y1 + tip); c.fill();
    }
    c.globalAlpha = 1;
  };
  // As many digits as tell one tick from the next.
  const tick = (t, step) => {
    const i = Math.min(3, Math.max(0, Math.floor(Math.log10(Math.max(1, to)) / 3)));
    const unit = 1000 ** i;
    const places = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
    return (t / unit).toFixed(places) + ' ' + ['ns', 'us', 'ms', 's'][i];
  };
  const drawAxis = (c, bottom) => {
    const rough = (to - from) / Math.max(2, (width - gutter) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    c.strokeStyle = colours.grid; c.fillStyle = colours.muted;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const at = x(t);
      c.beginPath(); c.moveTo(at, AXIS); c.lineTo(at, bottom); c.stroke();
      const text = tick(t, step);
      if (at + c.measureText(text).width < width) c.fillText(text, at + 3, 10);
    }
    c.strokeStyle = colours.accent;
    for (const [start, step] of data.steps) {
      if (start < from || start > to) continue;
      const at = x(start);
      c.beginPath(); c.setLineDash([4, 3]); c.moveTo(at, AXIS - 2); c.lineTo(at, bottom); c.stroke(); c.setLineDash([]);
      c.fillStyle = colours.accent;
      const text = 'step ' + step;
      if (at + c.measureText(text).width < width) c.fillText(text, at + 3, AXIS + HEAD / 2);
    }
  };
  const draw = () => {
    narrow = canvas.clientWidth < 560;
    gutter = narrow ? 76 : 132;
    const height = AXIS + rows.reduce((sum, row) => sum + row.height, 0);
    let c; [c, width] = fit(canvas, height);
    colours = {
      kinds: data.kinds.map((_, i) => css('--k' + i)), text: css('--text'), muted: css('--muted'), grid: css('--grid'),
      line: css('--line'), card: css('--card'), accent: css('--accent'),
    };
    c.clearRect(0, 0, width, height);
    drawAxis(c, height);
    let top = AXIS;
    for (const row of rows) {
      row.top = top;
      if (row.head !== undefined) {
        c.strokeStyle = colours.line;
        c.beginPath(); c.moveTo(0, top + 0.5); c.lineTo(width, top + 0.5); c.stroke();
        c.fillStyle = colours.text; c.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
        c.fillText(clip(c, row.head, gutter - 4), 0, top + HEAD / 2);
        c.font = '12px system-ui, "DejaVu Sans", sans-serif';
      } else {
        c.fillStyle = colours.muted;
        c.fillText(clip(c, row.lane, gutter - 14), narrow ? 4 : 10, top + LANE / 2);
        drawSpans(c, row, top);
      }
      top += row.height;
    }
    drawArrows(c);
    drawOverview();
  };
  const drawOverview = () => {
    const line = 11;
    const [c, w] = fit(overview, data.devices.length * line + 4);
    const room = w - gutter;
    data.devices.forEach((device, d) => {
      const parts = device.lanes[0] ? device.lanes[0].busy.length : 0;
      c.fillStyle = colours.muted;
      c.font = '10.5px system-ui, "DejaVu Sans", sans-serif';
      c.fillText(clip(c, device.name, gutter - 6), 0, d * line + line / 2 + 2);
      c.fillStyle = colours.kinds[0];
      for (let i = 0; i < parts; i += 1) {
        const busy = Math.max(...device.lanes.map((lane) => lane.busy[i])) / 100;
        if (busy === 0) continue;
        c.globalAlpha = 0.15 + 0.85 * busy;
        c.fillRect(gutter + (i / parts) * room, d * line + 3, room / parts + 0.4, line - 3);
      }
      c.globalAlpha = 1;
    });
    const box = (a, b, colour, thick) => {
      c.strokeStyle = colour; c.lineWidth = thick;
      const left = gutter + (a / data.total) * room;
      c.strokeRect(left, 1, Math.max(3, ((b - a) / data.total) * room - 1), data.devices.length * line + 2);
    };
    box(first, last, colours.text, 1.5);
  };

  const view = (start, length) => {
    const size = Math.min(last - first, Math.max(20, length));
    from = Math.min(Math.max(first, start), last - size);
    to = from + size;
    requestAnimationFrame(draw);
  };
  const zoomAt = (factor, at) => view(at - (at - from) * factor, (to - from) * factor);
  const timeAt = (clientX) => from + ((clientX - canvas.getBoundingClientRect().left - gutter) / (width - gutter)) * (to - from);
  const middle = () => (from + to) / 2;
  const actions = {
    in: () => zoomAt(0.5, middle()), out: () => zoomAt(2, middle()), all: () => view(first, last - first),
    left: () => view(from - (to - from) / 4, to - from), right: () => view(from + (to - from) / 4, to - from),
  };
  for (const button of document.querySelectorAll('[data-zoom]')) button.addEventListener('click', actions[button.dataset.zoom]);
  canvas.addEventListener('keydown', (event) => {
    const action = { '+': 'in', '=': 'in', '-': 'out', 0: 'all', ArrowLeft: 'left', ArrowRight: 'right' }[event.key];
    if (action && !event.ctrlKey && !event.metaKey) { actions[action](); event.preventDefault(); }
  });
  canvas.addEventListener('wheel', (event) => {
    if (event.ctrlKey || event.metaKey) zoomAt(Math.exp(event.deltaY * 0.004), timeAt(event.clientX));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view(from + (event.deltaX / (width - gutter)) * (to - from), to - from);
    else return;
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener('dblclick', (event) => zoomAt(0.4, timeAt(event.clientX)));

  const pointers = new Map();
  canvas.addEventListener('pointerdown', (event) => { pointers.set(event.pointerId, event.clientX); canvas.setPointerCapture(event.pointerId); });
  const lift = (event) => pointers.delete(event.pointerId);
  canvas.addEventListener('pointerup', lift);
  canvas.addEventListener('pointercancel', lift);
  canvas.addEventListener('pointerleave', hideTip);
  canvas.addEventListener('pointermove', (event) => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) { point(event); return; }
    hideTip();
    const other = [...pointers].find(([id]) => id !== event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    if (other) {
      const spread = Math.abs(before - other[1]) / Math.max(8, Math.abs(event.clientX - other[1]));
      zoomAt(spread, timeAt((event.clientX + other[1]) / 2));
    } else view(from - ((event.clientX - before) / (width - gutter)) * (to - from), to - from);
  });
  const point = (event) => {
    const y = event.clientY - canvas.getBoundingClientRect().top;
    const row = rows.find((r) => r.spans && y >= r.top && y < r.top + r.height);
    const at = timeAt(event.clientX), slack = ((to - from) / (width - gutter)) * 2;
    let found;
    for (let i = row ? firstVisible(row) : 0; row && i < row.spans.length && row.spans[i].start <= at + slack; i += 1) {
      if (row.spans[i].end >= at - slack) found = row.spans[i];
    }
    if (!found) { hideTip(); return; }
    const length = found.end - found.start;
    const lines = [found.name, data.kinds[found.kind] + ' · ' + time(length) + ' from ' + time(found.start)];
    if (found.size) lines.push(bytes(found.size) + (length ? ' · ' + (found.size / length).toFixed(2) + ' GB/s' : ''));
    showTip(lines.join('\n'), event.clientX, event.clientY);
  };
  addEventListener('resize', draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  draw();
})();
