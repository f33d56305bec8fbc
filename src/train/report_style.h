// The style sheet of reports: responsive (one column on a phone, two on a screen), with a dark
// theme, and readable on paper.
#pragma once

#include <string_view>

namespace extensor::train {

inline constexpr std::string_view report_style = R"css(
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5d6878;--paper:#f7f8fa;--card:#fff;
--line:#e2e6ec;--train:#2f6fb7;--validation:#c9512c;--right:47,111,183;--wrong:209,96,61}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#98a4b5;--paper:#12161c;
--card:#1a2028;--line:#2c3541;--train:#6ea8e5;--validation:#f08a68;--right:70,130,200;
--wrong:220,110,75}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1200px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:17px;margin:0 0 12px}
code,pre{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{margin:0;overflow-x:auto}
pre.text{white-space:pre-wrap;overflow-wrap:break-word}
section,.tile{background:var(--card);border:1px solid var(--line);border-radius:12px}
section{padding:18px;margin-top:18px}
.about{color:var(--soft);font-size:13px;margin-bottom:18px}
.about span{display:inline-block;margin-right:18px}
.about code{display:block;margin-top:6px;color:var(--ink)}
code span,dd span{white-space:nowrap}
.about code span{display:inline;margin:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.tile{padding:14px 16px}
.value{font-size:24px;font-weight:650;font-variant-numeric:tabular-nums;white-space:nowrap}
.name{color:var(--soft);font-size:13px}
figure{margin:0;min-width:0}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:22px 28px}
.chart figcaption{display:flex;flex-wrap:wrap;gap:2px 16px;justify-content:space-between;
align-items:baseline;margin-bottom:10px;font-size:14px}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12px;color:var(--soft)}
i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:5px}
i.train{background:var(--train)}i.validation{background:var(--validation)}i.pale{opacity:.4}
.plot{position:relative;height:210px;margin:0 12px 24px 56px;
font-size:12px;line-height:16px;color:var(--soft);font-variant-numeric:tabular-nums}
.plot svg{width:100%;height:100%;display:block;overflow:visible}
.plot svg *{fill:none;vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.grid{stroke:var(--line);stroke-width:1px}
.train{stroke:var(--train);stroke-width:2px}.validation{stroke:var(--validation);stroke-width:2px}
.plot svg .pale{stroke-width:1px;opacity:.4}.plot svg .mark{stroke-width:8px}
.plot>span{position:absolute;white-space:nowrap}
.y{right:100%;margin:-8px 8px 0 0}
.x,.x-name{top:100%;margin-top:7px}
.x{transform:translateX(-50%)}.x-name{right:100%;margin-right:8px}
.strip{position:absolute;top:0;bottom:0}
.strip:hover{background:linear-gradient(var(--soft),var(--soft)) center/1px 100% no-repeat}
.tip{display:none;position:absolute;bottom:calc(100% + 3px);left:50%;z-index:1;
transform:translateX(calc(-1%*var(--at)));padding:5px 9px;
white-space:nowrap;color:var(--ink);background:var(--card);border:1px solid var(--line);
border-radius:6px;box-shadow:0 2px 8px rgba(0,0,0,.2);pointer-events:none}
.strip:hover .tip{display:block}
.tables{display:flex;flex-wrap:wrap;gap:18px 40px;align-items:flex-start}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:separate;border-spacing:0;font-variant-numeric:tabular-nums;font-size:13px}
th{font-weight:600;color:var(--soft)}
td,th{padding:5px 9px;text-align:right;white-space:nowrap}
th:first-child{position:sticky;left:0;background:var(--card)}
.confusion td{border:solid var(--line);border-width:0 1px 1px 0;min-width:36px;height:31px}
.confusion tr:first-child+tr td{border-top-width:1px}
.confusion th+td{border-left-width:1px}
.confusion .right{background:rgba(var(--right),var(--shade,0))}
.confusion .wrong{background:rgba(var(--wrong),var(--shade,0))}
.confusion .strong{color:#fff}
.confusion .long th+th{writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;
padding:9px 5px}
.by-class tr+tr>*{border-top:1px solid var(--line)}
.note{color:var(--soft);font-size:13px;margin:-8px 0 12px}
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(120px,1fr));gap:18px 14px}
.picture img{width:100%;aspect-ratio:1;object-fit:contain;image-rendering:pixelated;
border-radius:8px;background:#000;display:block}
.picture figcaption{font-size:12px;line-height:1.4;margin-top:4px;overflow-wrap:break-word}
.chance{display:flex;justify-content:space-between;gap:8px;position:relative;margin-top:3px;
padding:0 5px;color:var(--ink);font-variant-numeric:tabular-nums;white-space:nowrap;z-index:0}
.chance span{overflow:hidden;text-overflow:ellipsis}
.chance::before{content:"";position:absolute;z-index:-1;inset:0 auto 0 0;width:var(--part);
min-width:2px;border-radius:3px;background:rgba(var(--right),.35)}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(250px,100%),1fr));gap:2px 28px;
margin:0}
dl div{display:flex;justify-content:space-between;gap:12px;border-bottom:1px solid var(--line);
padding:3px 0}
dl .long{grid-column:1/-1;order:1;justify-content:flex-start}
dl .long dt{min-width:140px}dl .long dd{text-align:left}
dt{color:var(--soft);flex:none;max-width:60%}
dd{margin:0;text-align:right;overflow-wrap:break-word;min-width:0;font-variant-numeric:tabular-nums}
@media (max-width:640px){main{padding:18px 10px 40px}section{padding:14px 12px}
h1{font-size:22px}.tiles{grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:8px}
.tile{padding:10px 12px}.value{font-size:20px}.plot{height:190px;margin-left:50px}.spare{display:none}
.confusion td,.confusion th{padding:3px 1px;font-size:11px}.confusion td{min-width:25px;height:26px}
.by-class td,.by-class th{padding:4px 6px}dl .long{flex-direction:column;gap:0}
.gallery{grid-template-columns:repeat(auto-fill,minmax(96px,1fr))}}
@media print{section{break-inside:avoid}}
)css";

}  // namespace extensor::train
