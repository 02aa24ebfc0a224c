import { inLanguage } from "../i18n/words.ts";

export const words = inLanguage({
  en: {
    skip: "Skip to content",
    menu: "Menu",
    closeMenu: "Close menu",
    navigation: "Navigation",
    nothingHere: "There is nothing at this address.",
    toStart: "Ask a question instead",
    loading: "Loading…",
    notLoaded: "This part of the page could not be loaded. Reload the page to try again.",
  },
  zh: {
    skip: "跳到正文",
    menu: "菜单",
    closeMenu: "关闭菜单",
    navigation: "导航",
    nothingHere: "这个地址没有内容。",
    toStart: "去提问",
    loading: "正在加载…",
    notLoaded: "页面的这一部分没有加载成功。请刷新页面重试。",
  },
});
