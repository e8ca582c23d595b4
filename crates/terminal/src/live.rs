//! A terminal that is drawn on again and again: a page that fills it, or a picture below lines
//! that scroll.
//!
//! Principles: this file alone changes how the terminal behaves, and puts it back on every way
//! out: at the end, on an error, in a panic, and as soon as a signal asks to end; `q` and Ctrl-C
//! ask as a signal does; a terminal that changed its size is drawn anew. Drawing is `ratatui`'s.
//! Where there is no terminal there is plain text. Non-goals: what is drawn.

use std::io::{self, IsTerminal as _, Stdout};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
pub use ratatui::style::{Color, Style};
pub use ratatui::text::{Line, Span};
use ratatui::{Terminal, TerminalOptions, Viewport};

use crate::{Failure, paint, print};

/// How the terminal is now.
static STATE: AtomicU8 = AtomicU8::new(AS_FOUND);
const AS_FOUND: u8 = 0;
const BELOW: u8 = 1;
const PAGE: u8 = 2;
/// The first row below the picture.
static BOTTOM: AtomicU16 = AtomicU16::new(0);
static RESIZED: AtomicBool = AtomicBool::new(false);
/// Held while it is drawn or put back.
static DRAWING: Mutex<()> = Mutex::new(());
/// Between two looks for keys, signals and sizes.
const LOOK: Duration = Duration::from_millis(50);

/// The terminal as it was found. What was drawn below the lines stays there.
fn put_back() {
    let mut out = io::stdout();
    // There is nobody to tell that it failed.
    let _ = match STATE.swap(AS_FOUND, Ordering::SeqCst) {
        AS_FOUND => return,
        PAGE => execute!(out, LeaveAlternateScreen, cursor::Show),
        _ => {
            let last = BOTTOM.load(Ordering::SeqCst).saturating_sub(1);
            let line_feed = ratatui::crossterm::style::Print("\r\n");
            execute!(out, cursor::MoveTo(0, last), line_feed, cursor::Show)
        }
    };
    let _ = disable_raw_mode();
}

/// A terminal of ours, until it is dropped or `cancel` is set.
struct Live(Terminal<CrosstermBackend<Stdout>>);

impl Live {
    fn open(viewport: Viewport, cancel: &Arc<AtomicBool>) -> io::Result<Live> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                put_back();
                before(info);
            }));
        });
        let is_page = viewport == Viewport::Fullscreen;
        // A terminal that does not say where its cursor is gets no picture below lines.
        let row = if is_page { 0 } else { cursor::position()?.1 };
        enable_raw_mode()?;
        if is_page {
            STATE.store(PAGE, Ordering::SeqCst);
            execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        } else {
            BOTTOM.store(row + 1, Ordering::SeqCst);
            STATE.store(BELOW, Ordering::SeqCst);
        }
        let options = TerminalOptions { viewport };
        let terminal = Terminal::with_options(CrosstermBackend::new(io::stdout()), options)?;
        let cancel = Arc::clone(cancel);
        std::thread::Builder::new().spawn(move || listen(&cancel))?;
        Ok(Live(terminal))
    }

    /// Opens it; if that fails the terminal is as it was found.
    fn try_open(viewport: Viewport, cancel: &Arc<AtomicBool>) -> Option<Live> {
        let opened = Live::open(viewport, cancel);
        if opened.is_err() {
            put_back();
        }
        opened.ok()
    }

    /// Draws, unless the terminal was put back.
    fn draw(
        &mut self,
        draw: impl FnOnce(&mut Terminal<CrosstermBackend<Stdout>>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        if STATE.load(Ordering::SeqCst) == AS_FOUND {
            return Ok(());
        }
        draw(&mut self.0).map_err(|e| Failure::work(format_args!("write to the terminal: {e}")))?;
        let area = self.0.get_frame().area();
        BOTTOM.store(area.bottom(), Ordering::SeqCst);
        Ok(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        put_back();
    }
}

/// Hears keys and new sizes; puts the terminal back once the end is asked for.
fn listen(cancel: &AtomicBool) {
    while STATE.load(Ordering::SeqCst) != AS_FOUND {
        match event::poll(LOOK) {
            Ok(false) => {}
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) if is_end(key.code, key.modifiers) => {
                    cancel.store(true, Ordering::Relaxed);
                }
                Ok(Event::Resize(..)) => RESIZED.store(true, Ordering::Relaxed),
                _ => {}
            },
            // No keys: signals remain.
            Err(_) => std::thread::sleep(LOOK),
        }
        if cancel.load(Ordering::Relaxed) {
            let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
            put_back();
        }
    }
}

fn is_end(code: KeyCode, modifiers: KeyModifiers) -> bool {
    code == KeyCode::Char('q')
        || code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL)
}

/// Text that is shown again and again: on a terminal as a page, elsewhere one below the other.
pub struct Watch {
    live: Option<Live>,
    last: String,
    cancel: Arc<AtomicBool>,
}

impl Watch {
    /// A page if `page` and stdout is a terminal. `cancel` ends it, and is set by `q` and Ctrl-C.
    pub fn new(page: bool, cancel: &Arc<AtomicBool>) -> Self {
        let live = (page && io::stdout().is_terminal())
            .then(|| Live::try_open(Viewport::Fullscreen, cancel))
            .flatten();
        Watch {
            live,
            last: String::new(),
            cancel: Arc::clone(cancel),
        }
    }

    /// It is a page.
    pub fn is_page(&self) -> bool {
        self.live.is_some()
    }

    /// Shows `text` now.
    pub fn show(&mut self, text: String) -> Result<(), Failure> {
        let Some(live) = &mut self.live else {
            return print(&text);
        };
        self.last = text;
        live.draw(|terminal| page(terminal, &self.last))
    }

    /// Waits for `time` or until it is cancelled; draws anew what has changed its size.
    pub fn wait(&mut self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.cancel.load(Ordering::Relaxed) {
            if let Some(live) = &mut self.live
                && RESIZED.swap(false, Ordering::Relaxed)
            {
                live.draw(|terminal| page(terminal, &self.last))?;
            }
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// What a page showed last stays.
    pub fn end(mut self) -> Result<(), Failure> {
        match self.live.take() {
            Some(live) => drop(live),
            None => return Ok(()),
        }
        print(&self.last)
    }
}

/// A picture at the bottom of a terminal; lines of text scroll above it.
pub struct Below(Live);

impl Below {
    /// A picture of `lines` lines; `None` if stdout is no terminal that can have one.
    pub fn open(lines: u16, cancel: &Arc<AtomicBool>) -> Option<Self> {
        if !io::stdout().is_terminal() {
            return None;
        }
        Live::try_open(Viewport::Inline(lines), cancel).map(Below)
    }

    /// Puts `text` above, and the picture that `draw` makes for a width below. Text alone once it
    /// was cancelled.
    pub fn show(
        &mut self,
        text: &str,
        draw: impl FnOnce(usize) -> Vec<Line<'static>>,
    ) -> Result<(), Failure> {
        let mut drawn = false;
        self.0.draw(|terminal| {
            drawn = true;
            below(terminal, text, draw)
        })?;
        if drawn { Ok(()) } else { print(text) }
    }
}

/// Draws as much of `text` as there is room for.
fn page<B: Backend>(terminal: &mut Terminal<B>, text: &str) -> Result<(), B::Error> {
    terminal.draw(|frame| {
        let area = frame.area();
        for (y, line) in (area.top()..area.bottom()).zip(text.lines()) {
            let line = paint::spans(line);
            frame.buffer_mut().set_line(area.x, y, &line, area.width);
        }
    })?;
    Ok(())
}

fn below<B: Backend>(
    terminal: &mut Terminal<B>,
    text: &str,
    draw: impl FnOnce(usize) -> Vec<Line<'static>>,
) -> Result<(), B::Error> {
    terminal.autoresize()?;
    let width = usize::from(terminal.get_frame().area().width.max(1));
    let mut lines = Vec::new();
    for line in text.lines() {
        let line: Vec<char> = line.chars().collect();
        // What is longer than the terminal goes on in the next line.
        lines.extend(
            line.chunks(width)
                .map(|part| part.iter().collect::<String>()),
        );
        if line.is_empty() {
            lines.push(String::new());
        }
    }
    for some in lines.chunks(100) {
        terminal.insert_before(some.len() as u16, |buffer| {
            for (y, line) in (0..).zip(some) {
                buffer.set_stringn(0, y, line, width, Style::default());
            }
        })?;
    }
    let picture = draw(width);
    terminal.draw(|frame| {
        let area = frame.area();
        for (y, line) in (area.top()..area.bottom()).zip(&picture) {
            frame.buffer_mut().set_line(area.x, y, line, area.width);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_page_is_cut_and_drawn_anew() {
        let mut terminal = Terminal::new(TestBackend::new(8, 2)).unwrap();
        page(&mut terminal, "first line\nsecond\nthird\n").unwrap();
        terminal
            .backend()
            .assert_buffer_lines(["first li", "second  "]);
        page(&mut terminal, "1\n").unwrap();
        terminal
            .backend()
            .assert_buffer_lines(["1       ", "        "]);
        terminal.backend_mut().resize(12, 3);
        page(&mut terminal, "first line\nsecond\nthird\n").unwrap();
        let all = ["first line  ", "second      ", "third       "];
        terminal.backend().assert_buffer_lines(all);
    }

    #[test]
    fn lines_scroll_above_a_picture() {
        let viewport = Viewport::Inline(1);
        let options = TerminalOptions { viewport };
        let mut terminal = Terminal::with_options(TestBackend::new(6, 4), options).unwrap();
        let picture = |width| vec![Line::from("=".repeat(width))];
        below(&mut terminal, "one\n", picture).unwrap();
        terminal
            .backend()
            .assert_buffer_lines(["one   ", "======", "      ", "      "]);
        below(&mut terminal, "\nlonger than six\n", picture).unwrap();
        terminal
            .backend()
            .assert_buffer_lines(["longer", " than ", "six   ", "======"]);
        below(&mut terminal, "", picture).unwrap();
        terminal
            .backend()
            .assert_buffer_lines(["longer", " than ", "six   ", "======"]);
    }

    #[test]
    fn q_and_ctrl_c_end() {
        assert!(is_end(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(is_end(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!is_end(KeyCode::Char('c'), KeyModifiers::NONE));
    }
}
