// Reads a figure off under the pointer: values of all lines at that place. No data of its own: it asks the
// drawn paths.
document.querySelectorAll("svg.fig").forEach(function (svg) {
  var ns = "http://www.w3.org/2000/svg", lines = svg.querySelectorAll("path.l");
  var bar = document.createElementNS(ns, "path");
  bar.setAttribute("class", "n");
  bar.setAttribute("pointer-events", "none");
  svg.appendChild(bar);
  svg.addEventListener("pointerleave", function () { bar.removeAttribute("d"); svg.querySelectorAll(".hv").forEach(function (e) { e.remove(); }); });
  svg.addEventListener("pointermove", function (event) {
    var p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    var box = svg.viewBox.baseVal;
    bar.setAttribute("d", "M" + p.x + " 0V" + box.height);
    svg.querySelectorAll(".hv").forEach(function (e) { e.remove(); });
    lines.forEach(function (line) {
      var d = line.getAttribute("d"), best = null;
      d.replace(/[ML]([-\d.]+) ([-\d.]+)/g, function (_, x, y) {
        if (!best || Math.abs(x - p.x) < Math.abs(best[0] - p.x)) best = [+x, +y];
        return _;
      });
      if (!best || Math.abs(best[0] - p.x) > 8 || getComputedStyle(line).visibility === "hidden") return;
      var axis = scale(svg, best);
      if (!axis) return;
      var text = document.createElementNS(ns, "text");
      text.setAttribute("class", "hv");
      text.setAttribute("x", Math.min(best[0] + 6, box.width - 60));
      text.setAttribute("y", best[1] - 6);
      text.setAttribute("font-size", 12);
      text.setAttribute("pointer-events", "none");
      text.textContent = axis;
      svg.appendChild(text);
    });
  });
  // The value at a place, by the two labels of the y axis nearest to it.
  function scale(svg, at) {
    var ticks = [];
    svg.querySelectorAll("path.g,path.a").forEach(function (g) {
      var label = g.nextElementSibling, m = /^M([-\d.]+) ([-\d.]+)h([-\d.]+)/.exec(g.getAttribute("d"));
      if (m && label && label.getAttribute("text-anchor") === "end" && at[0] >= +m[1] - 1 && at[0] <= +m[1] + +m[3] + 1)
        ticks.push([+m[2], parseFloat(label.textContent)]);
    });
    ticks.sort(function (a, b) { return Math.abs(a[0] - at[1]) - Math.abs(b[0] - at[1]); });
    var a = ticks[0], b = ticks.find(function (t) { return a && t[0] !== a[0] && Math.abs(t[0] - a[0]) < 200; });
    if (!a || !b) return "";
    return (a[1] + (at[1] - a[0]) * (b[1] - a[1]) / (b[0] - a[0])).toPrecision(3);
  }
});
