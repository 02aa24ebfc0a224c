/** HTML made from an answer -> nodes that can do nothing: no script, no style, no request, no link but to the web. */
import DOMPurify from "dompurify";

const TAGS =
  "a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i kbd li ol p pre s strong sub sup table tbody td th thead tr u ul";

const RULES = {
  ALLOWED_TAGS: TAGS.split(" "),
  ALLOWED_ATTR: ["href", "title", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
} as const;

export function safe(html: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(html, {
    ...RULES,
    ALLOWED_TAGS: [...RULES.ALLOWED_TAGS],
    ALLOWED_ATTR: [...RULES.ALLOWED_ATTR],
  });
  for (const link of fragment.querySelectorAll("a[href]")) {
    link.setAttribute("rel", "noopener noreferrer");
    link.setAttribute("target", "_blank");
  }
  // Each block finds its own direction (case T08).
  for (const block of fragment.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th, blockquote"))
    block.setAttribute("dir", "auto");
  // Said outright, so that a command at its beginning doesn't decide the direction of a sentence.
  for (const code of fragment.querySelectorAll("code")) code.setAttribute("dir", "ltr");
  return fragment;
}
