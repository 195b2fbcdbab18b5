// What a chart draws beside its lines: intervals and the goal.

import { colorOf, shownSeries } from "marl/charts.js";
import { number } from "marl/format.js";

/** The goal as {value, label}; null without one. */
export function goalOf(chart) {
  if (chart.goal === null || chart.goal === undefined) return null;
  return typeof chart.goal === "object" ? chart.goal : { value: chart.goal, label: `goal ${number(chart.goal)}` };
}

/** The corners of an interval's band: along the upper bound, and back along the lower one. */
export function bandCorners(one, isLog) {
  const there = [];
  const back = [];
  one.x.forEach((x, i) => {
    const [low, high] = [one.low?.[i], one.high?.[i]];
    if (!Number.isFinite(low) || !Number.isFinite(high) || (isLog && high <= 0)) return;
    there.push([x, high]);
    back.push([x, isLog ? Math.max(low, high * 1e-6) : low]);
  });
  return [...there, ...back.reverse()];
}

/** The intervals, below the lines. */
export function drawBands(chart, plot) {
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.globalAlpha = 0.18;
  for (const one of shownSeries(chart)) {
    if (!one.low) continue;
    ctx.beginPath();
    for (const [x, y] of bandCorners(one, chart.log)) ctx.lineTo(
      plot.valToPos(x, "x", true),
      plot.valToPos(y, "y", true),
    );
    ctx.fillStyle = colorOf(one.color);
    ctx.fill();
  }
  ctx.restore();
}

/** The goal, above them. */
export function drawGoal(chart, plot) {
  const goal = goalOf(chart);
  if (goal === null || (chart.log && goal.value <= 0)) return;
  const { ctx } = plot;
  const { left, top, width } = plot.bbox;
  const y = plot.valToPos(goal.value, "y", true);
  const dots = globalThis.uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colorOf("--good");
  ctx.lineWidth = 1.5 * dots;
  ctx.setLineDash([8 * dots, 5 * dots]);
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(left + width, y);
  ctx.stroke();
  ctx.font = `${12 * dots}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  const below = y - top < 18 * dots;
  ctx.fillText(goal.label, left + width - 4 * dots, below ? y + 14 * dots : y - 5 * dots);
  ctx.restore();
}
