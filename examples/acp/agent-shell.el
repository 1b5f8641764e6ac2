;;; agent-shell for Emacs: M-x reedclaw talks with ReedClaw.  -*- lexical-binding: t; -*-

(require 'agent-shell)

(defvar reedclaw-agent
  (agent-shell-make-agent-config
   :identifier 'reedclaw
   :mode-line-name "ReedClaw"
   :buffer-name "ReedClaw"
   :shell-prompt "ReedClaw> "
   :shell-prompt-regexp "ReedClaw> "
   :client-maker (lambda (buffer)
                   (acp-make-client :command "reedclaw"
                                    :command-params '("acp")
                                    :context-buffer buffer)))
  "ReedClaw as agent-shell starts it.")

(defun reedclaw ()
  "Open a chat with ReedClaw."
  (interactive)
  (agent-shell-start :config reedclaw-agent))
