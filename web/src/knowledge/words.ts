/** Words of the knowledge views that more than one of them says. */
import { count } from "../i18n/moments.ts";
import { inLanguage } from "../i18n/words.ts";

export const words = inLanguage({
  en: {
    knowledge: "Knowledge",
    documents: "Documents",
    facts: "Facts",
    proposals: "Proposals",
    sections: "Parts of this base",
    loading: "Loading…",
    tryAgain: "Try again",
    cancel: "Cancel",
    close: "Close",
    remove: "Delete",
    keep: "Keep it",
    more: (left: number) => `Show ${count(left)} more`,
    noType: "untyped",
    factCount: (n: number) => (n === 1 ? "1 fact" : `${count(n)} facts`),
    documentCount: (n: number) => (n === 1 ? "1 document" : `${count(n)} documents`),
    passageCount: (n: number) => (n === 1 ? "1 passage" : `${count(n)} passages`),
    openPassage: "Open the passage",
  },
  zh: {
    knowledge: "知识库",
    documents: "文档",
    facts: "事实",
    proposals: "待确认",
    sections: "本库的各部分",
    loading: "正在加载…",
    tryAgain: "重试",
    cancel: "取消",
    close: "关闭",
    remove: "删除",
    keep: "保留",
    more: (left: number) => `再显示 ${count(left)} 条`,
    noType: "未分类",
    factCount: (n: number) => `${count(n)} 条事实`,
    documentCount: (n: number) => `${count(n)} 个文档`,
    passageCount: (n: number) => `${count(n)} 个段落`,
    openPassage: "打开原文段落",
  },
});
