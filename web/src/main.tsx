import { render } from "preact";

import { language } from "./i18n/language.ts";
import { listen } from "./router/location.ts";
import { Shell } from "./shell/shell.tsx";
import "./style/tokens.css";
import "./style/base.css";

const app = document.getElementById("app");
if (app === null) throw new Error("index.html has no #app");
document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
listen();
render(<Shell />, app);
