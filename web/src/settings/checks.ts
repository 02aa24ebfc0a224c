/** What each thing that the doctor looks at means to a person. Source of the subjects: app/llm/probe.py, app/api/doctor.py. */
import { inLanguage } from "../i18n/words.ts";

const words = inLanguage({
  en: {
    database: "Where conversations, documents and facts are kept.",
    migrations: "Whether the database has the tables that this version needs.",
    live: "Where a running answer's frames are kept, so that any tab can follow it.",
    tools: "What a turn can call to gather evidence.",
    tool: "A tool of an installed package that was asked for.",
    model: "Who answers.",
    endpoint: "Whether the model's server answers, and its answer comes to an end.",
    calling: "Whether the model calls tools. Without it, evidence is searched once before it answers.",
    choice: "Whether the model can be made to look before it answers.",
    usage: "Whether the model says how many tokens an answer cost.",
    late_system: "Whether instructions may stand late in a conversation. Without it they are put first.",
    call_ids: "Whether ids of tool calls come back as they were sent.",
    reasoning: "Whether a thinking model takes back what it thought before a call.",
    parallel: "Whether several tool calls may come at once.",
  },
  zh: {
    database: "对话、文档和事实存放的地方。",
    migrations: "数据库是否具备本版本所需的表。",
    live: "正在生成的回答的片段存放处，任何标签页都能从中接续。",
    tools: "一轮回答可以调用的工具。",
    tool: "所要求的、来自已安装软件包的工具。",
    model: "由谁回答。",
    endpoint: "模型服务器是否应答，应答是否完整结束。",
    calling: "模型是否会调用工具。不会的话，回答前只检索一次。",
    choice: "能否要求模型先查证再回答。",
    usage: "模型是否说明一次回答花费多少 token。",
    late_system: "指示能否放在对话靠后的位置。不能的话，会合并到最前面。",
    call_ids: "工具调用的编号是否原样返回。",
    reasoning: "思考型模型是否接受自己调用工具前的思考内容。",
    parallel: "能否同时调用几个工具。",
  },
});

const MEANINGS: Readonly<Record<string, string>> = {
  database: words.database,
  migrations: words.migrations,
  "live log": words.live,
  tools: words.tools,
  model: words.model,
  endpoint: words.endpoint,
  "tool calling": words.calling,
  "tool_choice required": words.choice,
  "stream usage": words.usage,
  late_system: words.late_system,
  call_ids: words.call_ids,
  reasoning: words.reasoning,
  parallel_tool_calls: words.parallel,
};

/** What a finding's subject means; "" for one that is not known here. */
export function meaningOf(subject: string): string {
  if (subject.startsWith("tool ") && subject !== "tool calling") return words.tool;
  return MEANINGS[subject] ?? "";
}
