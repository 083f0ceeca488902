// Draws the charts of a report from the data in the page. Nothing is loaded from anywhere.
(() => {
  "use strict";
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const nodes = [...document.querySelectorAll("[data-chart]")];
  const drawn = new Set();
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;

  // Colours are written as names of style variables, so that charts follow the page.
  const resolved = (value, style) => {
    if (typeof value === "string") {
      return value.startsWith("--") ? style.getPropertyValue(value).trim() : value;
    }
    if (Array.isArray(value)) return value.map((one) => resolved(one, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolved(one, style)]));
    }
    return value;
  };

  // Ticks of a logarithmic axis with whole numbers: 20, 50, 100 and not 2, 5, 100.
  const logTicks = (key, data) => {
    const values = data.flatMap((one) => one[key[0]] || []).filter((one) => one > 0);
    const low = Math.floor(Math.log10(Math.min(...values)));
    const high = Math.ceil(Math.log10(Math.max(...values)));
    if (!values.length || !Number.isFinite(high - low)) return {};
    const steps = high - low > 3 ? [1] : [1, 2, 5];
    const tickvals = [];
    for (let power = low - 1; power <= high; power += 1) {
      steps.forEach((step) => tickvals.push(Number(`${step}e${power}`)));
    }
    return { tickmode: "array", tickvals, ticktext: tickvals.map(String) };
  };

  const laidOut = (given, node, style, data) => {
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = {
      gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"),
      ticks: "outside", tickcolor: colour("--line"), exponentformat: "none",
    };
    const narrow = node.clientWidth < 480;
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 12, color: colour("--ink") },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
      margin: { l: narrow ? 56 : 66, r: 14, t: 10, b: 48 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, bgcolor: "rgba(0,0,0,0)", traceorder: "normal" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--ink") },
      hovermode: "closest", autosize: true, height: Number(node.dataset.height),
      ...given,
    };
    for (const key of Object.keys(layout)) {
      if (!/^[xy]axis/.test(key)) continue;
      const ticks = layout[key].type === "log" ? logTicks(key, data) : {};
      // Names of rows need their room; with numbers, ticks and margin would chase each other.
      const automargin = layout[key].type === "category";
      layout[key] = { ...axis, ...ticks, automargin, ...layout[key] };
    }
    if (printing) Object.assign(layout, { autosize: false, width: 660 });
    return layout;
  };

  const draw = (node) => {
    const spec = charts[node.dataset.chart];
    if (!spec || !window.Plotly) return;
    const style = getComputedStyle(root);
    const { data, layout } = resolved(spec, style);
    if (!drawn.has(node)) node.replaceChildren();
    drawn.add(node);
    window.Plotly.react(node, data, laidOut(layout, node, style, data), {
      displaylogo: false, showLink: false, showEditInChartStudio: false, responsive: true,
      displayModeBar: "hover", scrollZoom: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
  };
  const redraw = () => drawn.forEach(draw);

  const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const button = document.getElementById("theme");
  const label = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
    redraw();
  });
  prefersDark.addEventListener("change", () => { label(); redraw(); });
  label();

  // On paper: light, everything open, every chart drawn as wide as the paper.
  let before = null;
  addEventListener("beforeprint", () => {
    if (before) return;
    const closed = [...document.querySelectorAll("details:not([open])")];
    before = { theme: root.dataset.theme, closed };
    root.dataset.theme = "light";
    closed.forEach((one) => { one.open = true; });
    printing = true;
    nodes.forEach(draw);
  });
  addEventListener("afterprint", () => {
    if (!before) return;
    if (before.theme) root.dataset.theme = before.theme; else delete root.dataset.theme;
    before.closed.forEach((one) => { one.open = false; });
    before = null;
    printing = false;
    redraw();
  });

  const unable = (why) => nodes.forEach((node) => {
    const said = document.createElement("p");
    said.className = "wait";
    said.textContent = why;
    node.replaceChildren(said);
  });

  // What is on the screen first, the rest when there is time, so that paper has all of it.
  const drawAll = () => {
    const waiting = nodes.filter((node) => !drawn.has(node));
    const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
      if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target);
    }), { rootMargin: "200px" });
    waiting.forEach((node) => seen.observe(node));
    const next = () => {
      const node = waiting.find((one) => !drawn.has(one));
      if (!node) {
        seen.disconnect();
        root.dataset.drawn = "all";
        return;
      }
      draw(node);
      setTimeout(next, 0);
    };
    setTimeout(next, 50);
  };

  const inflate = async () => {
    const packed = document.getElementById("plotly").textContent.trim();
    const text = atob(packed);
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };
  if (!nodes.length) return;
  if (typeof DecompressionStream !== "function") {
    unable("This browser cannot unpack the charts; the tables hold all figures.");
    return;
  }
  inflate().then(drawAll, () => unable("The charts could not be drawn; the tables hold all figures."));
})();
