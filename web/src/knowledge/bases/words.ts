import { inLanguage } from "../../i18n/words.ts";

export const words = inLanguage({
  en: {
    about: "Each base holds documents and the facts read from them. A conversation asks one base.",
    make: "New base",
    name: "Name",
    nameHint: "Lower-case letters, digits, - and _, as in an address.",
    description: "What it holds (for people)",
    create: "Create",
    edit: "Edit",
    save: "Save",
    defaultName: "The base default always keeps its name.",
    empty: "Nothing in it yet. Open it to upload documents.",
    ask: (name: string) => `Delete the base ${name} with its documents, facts and conversations?`,
    askConfirm: "Delete the base",
  },
  zh: {
    about: "每个知识库存放文档和从中读出的事实。一次对话只查询一个知识库。",
    make: "新建知识库",
    name: "名称",
    nameHint: "小写字母、数字、- 和 _，与网址中的写法相同。",
    description: "内容说明（给人看）",
    create: "创建",
    edit: "编辑",
    save: "保存",
    defaultName: "知识库 default 的名称不变。",
    empty: "里面还没有内容。打开后可以上传文档。",
    ask: (name: string) => `删除知识库 ${name} 以及其中的文档、事实和对话？`,
    askConfirm: "删除知识库",
  },
});
