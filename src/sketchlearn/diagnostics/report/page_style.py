"""How the page looks: light and dark, on paper, and on a telephone."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfaf7; --card: #ffffff; --text: #1d2328; --soft: #56606a; --line: #d9dcdf; --bar: #2f6f9f;
  --warn: #8a3b00; --warn-card: #fdf1e4;
  --c0: #0072b2; --c1: #c04f00; --c2: #00805c; --c3: #a8487f; --c4: #8a6d00; --c5: #5b4bb5; --c6: #2a7f8f; --c7: #666;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181c; --card: #1d2328; --text: #eceff1; --soft: #aab4bd; --line: #3a434b; --bar: #6cb1e1;
    --warn: #ffc78f; --warn-card: #3a2a1a;
    --c0: #62b5ea; --c1: #ff9a56; --c2: #4fd0a5; --c3: #ee9ccb; --c4: #e3c44f; --c5: #ada0ff; --c6: #74cfe0; --c7: #bbb;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
header, nav, main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 2rem; }
h1 { margin: 0 0 .25rem; font-size: 1.9rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.4rem; }
h3 { margin: 0 0 .25rem; font-size: 1.05rem; overflow-wrap: anywhere; }
p, ul { max-width: 44rem; }
bdi { overflow-wrap: break-word; }
[data-value] { white-space: nowrap; }
.long { white-space: normal; }
small, .soft, figcaption, footer, caption { color: var(--soft); }
small { white-space: nowrap; }
.lead { font-size: 1.15rem; margin: 0; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; margin: 1rem 0 0; list-style: none; }
a { color: var(--c0); }
a:focus-visible, [tabindex]:focus-visible { outline: 3px solid var(--c0); outline-offset: 2px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: 1rem; }
.card, .key { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1rem; }
.card { margin: 0; min-width: 0; }
.cluster { margin: 1rem 0; border-left: .4rem solid var(--own, var(--line)); }
.keys { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1rem; margin: 1.5rem 0 0; }
.key { display: flex; flex-direction: column; }
.key dt { color: var(--soft); font-size: .9rem; }
.key dd { margin: 0; font-size: 1.3rem; font-weight: 600; line-height: 1.3; }
.warn { background: var(--warn-card); color: var(--warn); border-left: .3rem solid; padding: .6rem .9rem; }
.wide { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .3rem; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0; border-top: 1px solid var(--line); }
thead th { border-top: 0; font-size: .85rem; color: var(--soft); font-weight: 600; }
tbody th { font-weight: 600; }
svg { display: block; width: 100%; overflow: visible; }
svg .bar { fill: var(--bar); }
svg .axis { stroke: var(--line); stroke-width: 1.5; }
svg .middle { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 3 3; }
svg .dot { fill: var(--card); stroke-width: 3; }
svg text { fill: var(--text); font: 600 12px system-ui, sans-serif; text-anchor: middle; }
.ends { display: flex; justify-content: space-between; font-size: .85rem; color: var(--soft); gap: 1rem; }
.levels td:last-child { width: 45%; padding-right: 0; vertical-align: middle; }
.strips { margin: 1rem 0; }
.strip { display: grid; grid-template-columns: minmax(5rem, 11rem) 1fr; gap: 1rem; align-items: center; }
.strip .ends { display: grid; grid-template-columns: 1fr auto 1fr; }
.strip .ends :last-child { text-align: right; }
.strip > span { overflow-wrap: anywhere; }
footer { padding-top: 2rem; padding-bottom: 2rem; font-size: .9rem; }
@media (max-width: 30rem) {
  h1 { font-size: 1.5rem; }
  th, td { padding-right: .6rem; font-size: .88rem; }
  .card { padding: .75rem; }
  .strip { grid-template-columns: 5.5rem 1fr; gap: .5rem; font-size: .9rem; }
  .keys { grid-template-columns: 1fr 1fr; gap: .6rem; }
  .key dd { font-size: 1.1rem; }
}
@media print {
  :root {
    color-scheme: light;
    --page: #fff; --card: #fff; --text: #000; --soft: #444; --line: #bbb; --bar: #2f6f9f; --warn: #000;
    --warn-card: #fff;
    --c0: #0072b2; --c1: #c04f00; --c2: #00805c; --c3: #a8487f; --c4: #8a6d00; --c5: #5b4bb5; --c6: #2a7f8f; --c7: #666;
  }
  body { font-size: 10.5pt; }
  nav { display: none; }
  .wide { overflow: visible; }
  .card, .key, tr, .strip { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
}
"""
CLUSTER_COLORS = 8  # --c0 to --c7
