/** What the built-in tools do, in words for readers. A tool of another package is shown under its own name. */
import { inLanguage } from "../i18n/words.ts";
import { visible } from "../text/visible.ts";
import type { Step } from "../turn/frames.ts";

const names = inLanguage({
  en: {
    search_chunks: "Searched the documents",
    search_docs: "Searched the manual",
    find_entities: "Looked up names",
    entity_facts: "Read the facts",
    neighbors: "Followed relations",
    timeline: "Read the timeline",
    paths_between: "Looked for a connection",
    changes: "Compared what changed",
    remember: "Wrote down a fact",
    no_evidence_needed: "Judged that no evidence is needed",
    reasoning: "Thought about it",
  },
  zh: {
    search_chunks: "检索文档",
    search_docs: "检索手册",
    find_entities: "查找名称",
    entity_facts: "读取事实",
    neighbors: "查看关联",
    timeline: "读取时间线",
    paths_between: "寻找联系",
    changes: "比较变化",
    remember: "记录事实",
    no_evidence_needed: "判断无需依据",
    reasoning: "思考",
  },
});

/** The step's tool in words; a thinking model's reasoning is a step without a tool. */
export function toolName({ tool, kind }: Pick<Step, "tool" | "kind">): string {
  const name = tool === "" ? kind : tool;
  return Object.hasOwn(names, name) ? names[name as keyof typeof names] : visible(name);
}
