/**
 * The markdown that answers are written in: GitHub's, with three differences. Raw HTML is shown as the text it is,
 * except a few tags that models use inside tables; images become links, so that nothing is fetched; reference
 * definitions are text, because `[1]: …` at the end of an answer is a list of sources and not a link.
 */
import { Marked, type Token } from "marked";

const HARMLESS = /^<\/?(?:br|sub|sup|kbd|b|i|u|s)\s*\/?>$/i;

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

const dialect = new Marked({
  gfm: true,
  async: false,
  tokenizer: { def: () => undefined },
  renderer: {
    html: ({ text }) => (HARMLESS.test(text.trim()) ? text : escaped(text)),
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

export function tokens(text: string): Token[] {
  return dialect.lexer(text);
}

/** HTML of the tokens; not yet safe to put into a page (sanitise.ts). */
export function html(some: Token[]): string {
  return dialect.parser(some);
}
