import { inLanguage } from "../i18n/words.ts";

export const words = inLanguage({
  en: {
    title: "Log in",
    why: "This server asks who you are. Paste the token that you were given. It is kept in a cookie of this server that scripts can't read.",
    token: "Token",
    submit: "Log in",
    checking: "Checking…",
    refused: "The server doesn't accept this token. It may be mistyped, revoked or expired.",
    logOut: "Log out",
  },
  zh: {
    title: "登录",
    why: "此服务器需要确认您的身份。请粘贴您得到的令牌。它只保存在本服务器的 Cookie 中，脚本无法读取。",
    token: "令牌",
    submit: "登录",
    checking: "正在检查…",
    refused: "服务器不接受这个令牌。它可能输入有误、已被撤销或已过期。",
    logOut: "退出登录",
  },
});
